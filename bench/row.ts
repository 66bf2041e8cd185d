/** One row of the benchmark: its measurement, its peer and its bounds. */
import type { Context } from "./context.ts";
import type { Pairs } from "./figures/samples.ts";
import { summary } from "./figures/samples.ts";
import type { Peer } from "./peers/peer.ts";

export interface Row {
  /** For `--row`. */
  name: string;
  what: string;
  /** Absent: no comparison; only its promises are judged. */
  beside?: Beside;
  /** The program that it needs to be measured. */
  needs?: Peer;
  /** Whether `--quick` includes it. */
  quick?: true;
  run(context: Context): Promise<Outcome>;
}

export interface Beside {
  /** The floor or peer. */
  peer: string;
  /** "cost" is ours ÷ peer, and bounds are maxima. "speed" is peer ÷ ours, and bounds are minima. */
  ratio: "cost" | "speed";
  /** Absent: the row has no bound. */
  bounds?: Bounds;
}

interface Bounds {
  /** Missing this fails the benchmark. */
  atLeast: number;
  aim: number;
}

export type Outcome = Measured | { notMeasured: string };

interface Measured {
  /** Times of both sides; absent in a row without a peer. */
  pairs?: Pairs;
  /** Further figures of the same run, for the reader. */
  notes?: string[];
  /** Broken promises: one is enough to miss the row. */
  broken?: string[];
}

/** "measured": a row without bounds. */
export type Verdict = "reached" | "within" | "missed" | "measured";

export function ratioOf({ ratio }: Pick<Beside, "ratio">, pairs: Pairs): number {
  const [ours, peer] = [summary(pairs.ours).median, summary(pairs.peer).median];
  return ratio === "cost" ? ours / peer : peer / ours;
}

/** "reached": meets the aim. "within": meets the minimum. "missed": neither. */
export function verdictOn({ ratio: kind, bounds }: Omit<Beside, "peer">, ratio: number): Verdict {
  if (bounds === undefined) return "measured";
  const satisfies = (bound: number) => (kind === "cost" ? ratio <= bound : ratio >= bound);
  if (satisfies(bounds.aim)) return "reached";
  return satisfies(bounds.atLeast) ? "within" : "missed";
}
