/** From samples to what is shown: the table for people, the figures for programs. */
import type { MachineFacts } from "./machine-facts.ts";
import { type Outcome, type Row, ratioOf, type Verdict, verdictOn } from "./row.ts";
import { type Summary, summary } from "./samples.ts";

export interface Report {
  /** ISO 8601. */
  at: string;
  machine: MachineFacts;
  rounds: number;
  rows: Figures[];
}

type Figures = RowFacts & ({ notMeasured: string } | Measured);
type RowFacts = Pick<Row, "name" | "what" | "atLeast" | "aim"> & { against: string; ratioMeans: string };

interface Measured {
  oursMs: Summary & { samples: number[] };
  peerMs: Summary & { samples: number[] };
  ratio: number;
  verdict: Verdict;
  notes: string[];
}

const HEAD = ["row", "ours", "peer", "ratio", "at least", "aim", "verdict"];

export function figuresOf(row: Row, outcome: Outcome): Figures {
  const { name, what, atLeast, aim } = row;
  const ratioMeans = row.ratio === "cost" ? "ours ÷ peer" : "peer ÷ ours";
  const facts: RowFacts = { name, what, against: row.peer, ratioMeans, atLeast, aim };
  if ("notMeasured" in outcome) return { ...facts, notMeasured: outcome.notMeasured };
  const ratio = ratioOf(row, outcome);
  return {
    ...facts,
    oursMs: { ...summary(outcome.ours), samples: outcome.ours },
    peerMs: { ...summary(outcome.peer), samples: outcome.peer },
    ratio,
    verdict: verdictOn(row, ratio),
    notes: outcome.notes ?? [],
  };
}

export function table({ machine, rounds, rows, at }: Report): string {
  const { cores, arch, kernel, memoryMiB, loadBefore } = machine;
  return [
    `${cores} cores, ${arch}, Linux ${kernel}, ${memoryMiB} MiB, load before ${loadBefore}; ${rounds} rounds, ${at}`,
    "times in ms: median (p10–p90)",
    "",
    ...aligned([HEAD, ...rows.map(cells)]),
    "",
    ...rows.flatMap(legend),
  ].join("\n");
}

function cells(row: Figures): string[] {
  const bounds = [bound(row, row.atLeast), bound(row, row.aim)];
  if ("notMeasured" in row) return [row.name, "–", "–", "–", ...bounds, "not measured"];
  return [row.name, spread(row.oursMs), spread(row.peerMs), `${row.ratio.toFixed(2)} ×`, ...bounds, row.verdict];
}

function legend(row: Figures): string[] {
  const lines = [`${row.name}: ${row.what}; peer: ${row.against}; ratio: ${row.ratioMeans}`];
  if ("notMeasured" in row) return [...lines, `  not measured: ${row.notMeasured}`];
  return [...lines, ...row.notes.map((note) => `  ${note}`)];
}

function bound({ ratioMeans }: RowFacts, value: number): string {
  return `${ratioMeans === "ours ÷ peer" ? "≤" : "≥"} ${value} ×`;
}

function spread({ median, p10, p90 }: Summary): string {
  return `${median.toFixed(1)} (${p10.toFixed(1)}–${p90.toFixed(1)})`;
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
