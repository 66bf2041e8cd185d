/** Turns samples into a report: a table for people and figures for programs. */
import { type Beside, type Outcome, type Row, ratioOf, type Verdict, verdictOn } from "../row.ts";
import type { MachineFacts } from "./machine-facts.ts";
import { type Pairs, type Summary, summary } from "./samples.ts";

export interface Report {
  /** ISO 8601. */
  at: string;
  machine: MachineFacts;
  rounds: number;
  long: boolean;
  rows: Figures[];
}

type Figures = RowFacts & ({ notMeasured: string } | Judged);

interface RowFacts {
  name: string;
  what: string;
  against?: string;
  ratioMeans?: string;
  atLeast?: number;
  aim?: number;
}

interface Judged extends Partial<Compared> {
  verdict: Verdict;
  notes: string[];
  broken: string[];
}

interface Compared {
  oursMs: Summary & { samples: number[] };
  peerMs: Summary & { samples: number[] };
  ratio: number;
}

const HEAD = ["row", "ours", "peer", "ratio", "at least", "aim", "verdict"];
const NONE = "—";
const RATIO_MEANS = { cost: "ours ÷ peer", speed: "peer ÷ ours" };

export function figuresOf(row: Row, outcome: Outcome): Figures {
  const facts = factsOf(row);
  if ("notMeasured" in outcome) return { ...facts, notMeasured: outcome.notMeasured };
  const { pairs, notes = [], broken = [] } = outcome;
  const compared = row.beside === undefined || pairs === undefined ? undefined : comparedOf(row.beside, pairs);
  const byRatio = row.beside && compared ? verdictOn(row.beside, compared.ratio) : "reached";
  return { ...facts, ...compared, verdict: broken.length > 0 ? "missed" : byRatio, notes, broken };
}

function factsOf(row: Row): RowFacts {
  const { name, what, beside } = row;
  if (beside === undefined) return { name, what };
  return { name, what, against: beside.peer, ratioMeans: RATIO_MEANS[beside.ratio], ...beside.bounds };
}

function comparedOf(beside: Beside, { ours, peer }: Pairs): Compared {
  return {
    oursMs: { ...summary(ours), samples: ours },
    peerMs: { ...summary(peer), samples: peer },
    ratio: ratioOf(beside, { ours, peer }),
  };
}

export function table({ machine, rounds, long, rows, at }: Report): string {
  const { cores, arch, kernel, memoryMiB, loadBefore } = machine;
  const how = `${rounds} rounds${long ? ", long" : ""}, ${at}`;
  return [
    `${cores} cores, ${arch}, Linux ${kernel}, ${memoryMiB} MiB, load before ${loadBefore}; ${how}`,
    "times in ms: median (p10–p90)",
    "",
    ...aligned([HEAD, ...rows.map(cells)]),
    "",
    ...rows.flatMap(legend),
  ].join("\n");
}

function cells(row: Figures): string[] {
  const sign = row.ratioMeans === RATIO_MEANS.cost ? "≤" : "≥";
  const bounds = [row.atLeast, row.aim].map((bound) => (bound === undefined ? NONE : `${sign} ${bound} ×`));
  if ("notMeasured" in row) return [row.name, NONE, NONE, NONE, ...bounds, "not measured"];
  const ratio = row.ratio === undefined ? NONE : `${row.ratio.toFixed(2)} ×`;
  return [row.name, spread(row.oursMs), spread(row.peerMs), ratio, ...bounds, row.verdict];
}

/** A summary of a row in one line. */
export function inShort(row: Figures): string {
  const [name, ours, peer, ratio, , , verdict] = cells(row);
  const more = "notMeasured" in row ? [row.notMeasured] : [...row.notes, ...row.broken];
  return [`${name}: ${ours} ms, beside ${peer} ms: ${ratio}, ${verdict}`, ...more].join("; ");
}

function legend(row: Figures): string[] {
  const compared = row.against === undefined ? "" : `; peer: ${row.against}; ratio: ${row.ratioMeans}`;
  const lines = [`${row.name}: ${row.what}${compared}`];
  if ("notMeasured" in row) return [...lines, `  not measured: ${row.notMeasured}`];
  return [...lines, ...row.notes.map((note) => `  ${note}`), ...row.broken.map((promise) => `  missed: ${promise}`)];
}

function spread(times: Summary | undefined): string {
  if (times === undefined) return NONE;
  return `${times.median.toFixed(1)} (${times.p10.toFixed(1)}–${times.p90.toFixed(1)})`;
}

function aligned(lines: string[][]): string[] {
  const widths = HEAD.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  return lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
