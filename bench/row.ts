/** One row of the benchmark: what is measured, against what, and how good is good enough. */
import type { Context } from "./context.ts";
import type { Pairs } from "./figures/samples.ts";
import { summary } from "./figures/samples.ts";
import type { Peer } from "./peers/peer.ts";

export interface Row {
  /** For `--row`. */
  name: string;
  what: string;
  /** Absent: nothing stands beside it, and only its promises are judged. */
  beside?: Beside;
  /** The program without which it cannot be measured. */
  needs?: Peer;
  /** Whether it is among the few that `--quick` measures. */
  quick?: true;
  run(context: Context): Promise<Outcome>;
}

export interface Beside {
  /** The floor or peer. */
  peer: string;
  /** "cost" is ours ÷ peer: bounds are the most it may be. "speed" is peer ÷ ours: bounds are the least it may be. */
  ratio: "cost" | "speed";
  /** Absent: nobody has asked for any. */
  bounds?: Bounds;
}

interface Bounds {
  /** Missed: the benchmark fails. */
  atLeast: number;
  aim: number;
}

export type Outcome = Measured | { notMeasured: string };

interface Measured {
  /** Times of both sides; absent in a row that stands alone. */
  pairs?: Pairs;
  /** Further figures of the same run, for the reader. */
  notes?: string[];
  /** What was promised besides and did not hold: one is enough to miss the row. */
  broken?: string[];
}

/** "measured" is a row that nobody has asked anything of. */
export type Verdict = "reached" | "within" | "missed" | "measured";

export function ratioOf({ ratio }: Pick<Beside, "ratio">, pairs: Pairs): number {
  const [ours, peer] = [summary(pairs.ours).median, summary(pairs.peer).median];
  return ratio === "cost" ? ours / peer : peer / ours;
}

/** "reached" the aim, "within" what is asked at least, or "missed". */
export function verdictOn({ ratio: kind, bounds }: Omit<Beside, "peer">, ratio: number): Verdict {
  if (bounds === undefined) return "measured";
  const satisfies = (bound: number) => (kind === "cost" ? ratio <= bound : ratio >= bound);
  if (satisfies(bounds.aim)) return "reached";
  return satisfies(bounds.atLeast) ? "within" : "missed";
}
