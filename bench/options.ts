/** The command line of the benchmark. */
import { resolve } from "node:path";
import { parseWords } from "../src/cli/command-line.ts";
import { Fault } from "../src/contract/fault.ts";
import { PLOT_NAMES, type PlotName } from "./plots/plot-names.ts";

export interface Options {
  /** How often each side of a row is measured. */
  rounds: number;
  /** Names of the rows to run. */
  rows: string[];
  /** Few rows, few rounds, small sizes: results within two minutes. */
  quick: boolean;
  /** The full sizes and times of the heavy rows. */
  long: boolean;
  /** Plots of the docs to draw again; without rows, unless some are named. */
  plots: PlotName[];
  /** Also writes the figures to this file. */
  jsonFile: string | undefined;
}

/** As the table of commands declares them. */
interface BenchValues {
  quick?: boolean;
  long?: boolean;
  plots?: boolean;
  plot?: string[];
  rounds?: string;
  row?: string[];
  json?: string;
}

/** The part of a row that the options need. */
interface Choice {
  name: string;
  quick?: true;
}

const ROUNDS_DEFAULT = 20;
const ROUNDS_QUICK = 5;
const ROUNDS_MAX = 10_000;
/** `rows`: all existing rows. */
export function parseOptions(words: readonly string[], rows: readonly Choice[]): Options {
  const { values } = parseWords("bench", words);
  const { quick = false, long = false, plots: all = false, plot = [], rounds, row = [], json } = values as BenchValues;
  if (quick && long) throw new Fault(400, "--quick and --long exclude each other");
  const plots = all ? [...PLOT_NAMES] : plot.map(requirePlot);
  const usual = rows.filter((each) => plots.length === 0 && (!quick || each.quick)).map(({ name }) => name);
  return {
    rounds: rounds === undefined ? (quick ? ROUNDS_QUICK : ROUNDS_DEFAULT) : parseRounds(rounds),
    rows: row.length === 0 ? usual : row.map((name) => requireRow(name, rows)),
    quick,
    long,
    plots,
    jsonFile: json === undefined ? undefined : resolve(json),
  };
}

function parseRounds(text: string): number {
  const rounds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (rounds < 1 || rounds > ROUNDS_MAX) {
    throw new Fault(400, `--rounds must be a whole number from 1 to ${ROUNDS_MAX}, not "${text}"`);
  }
  return rounds;
}

function requirePlot(name: string): PlotName {
  const found = PLOT_NAMES.find((known) => known === name);
  if (found !== undefined) return found;
  throw new Fault(400, `there is no plot "${name}". Plots: ${PLOT_NAMES.join(", ")}`);
}

function requireRow(name: string, rows: readonly Choice[]): string {
  if (rows.some((row) => row.name === name)) return name;
  throw new Fault(400, `there is no row "${name}". Rows: ${rows.map((row) => row.name).join(", ")}`);
}
