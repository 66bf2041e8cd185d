/** One row of the benchmark: what is measured, against what, and how good is good enough. */
import type { Context } from "./context.ts";
import type { Pairs } from "./samples.ts";
import { summary } from "./samples.ts";

export interface Row {
  /** For `--row`. */
  name: string;
  what: string;
  /** The floor or peer that stands beside it. */
  peer: string;
  /** "cost" is ours ÷ peer: bounds are the most it may be. "speed" is peer ÷ ours: bounds are the least it may be. */
  ratio: "cost" | "speed";
  /** Missed: the benchmark fails. */
  atLeast: number;
  aim: number;
  run(context: Context): Promise<Outcome>;
}

/** `notes` are further figures of the same run, for the reader. */
export type Outcome = (Pairs & { notes?: string[] }) | { notMeasured: string };

export type Verdict = "reached" | "within" | "missed";

export function ratioOf(row: Pick<Row, "ratio">, pairs: Pairs): number {
  const [ours, peer] = [summary(pairs.ours).median, summary(pairs.peer).median];
  return row.ratio === "cost" ? ours / peer : peer / ours;
}

/** "reached" the aim, "within" what is asked at least, or "missed". */
export function verdictOn(row: Pick<Row, "ratio" | "atLeast" | "aim">, ratio: number): Verdict {
  const satisfies = (bound: number) => (row.ratio === "cost" ? ratio <= bound : ratio >= bound);
  if (satisfies(row.aim)) return "reached";
  return satisfies(row.atLeast) ? "within" : "missed";
}
