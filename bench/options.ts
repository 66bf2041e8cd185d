/** The command line of the benchmark. */
import { resolve } from "node:path";
import { Fault } from "../src/contract/fault.ts";

export interface Options {
  /** How often each side of a row is measured. */
  rounds: number;
  /** Names of the rows to run. */
  rows: string[];
  /** Few rows, few rounds, small sizes: an answer within two minutes. */
  quick: boolean;
  /** The full sizes and times of the heavy rows. */
  long: boolean;
  /** Whether the plots of the docs are drawn anew; instead of rows, unless some are named. */
  plots: boolean;
  /** Where the figures are written besides the terminal. */
  jsonFile: string | undefined;
}

/** What this has to know of a row. */
interface Choice {
  name: string;
  quick?: true;
}

const ROUNDS_DEFAULT = 20;
const ROUNDS_QUICK = 5;
const ROUNDS_MAX = 10_000;
const USAGE = "sandlot bench takes --rounds N, --row NAME (once or more), --quick or --long, --plots, and --json FILE";

/** `rows`: all there are. */
export function parseOptions(args: readonly string[], rows: readonly Choice[]): Options {
  const given: Partial<Options> & { rows: string[] } = { rows: [] };
  const left = [...args];
  for (let name = left.shift(); name !== undefined; name = left.shift()) {
    if (name === "--long") given.long = true;
    else if (name === "--quick") given.quick = true;
    else if (name === "--plots") given.plots = true;
    else if (name === "--rounds") given.rounds = parseRounds(demandValue(name, left.shift()));
    else if (name === "--row") given.rows.push(demandRow(demandValue(name, left.shift()), rows));
    else if (name === "--json") given.jsonFile = resolve(demandValue(name, left.shift()));
    else throw new Fault(400, `"${name}" is not known; ${USAGE}`);
  }
  const { quick = false, long = false, plots = false, jsonFile } = given;
  if (quick && long) throw new Fault(400, `--quick and --long cannot both be; ${USAGE}`);
  const usual = rows.filter((row) => !plots && (!quick || row.quick)).map(({ name }) => name);
  return {
    rounds: given.rounds ?? (quick ? ROUNDS_QUICK : ROUNDS_DEFAULT),
    rows: given.rows.length === 0 ? usual : given.rows,
    quick,
    long,
    plots,
    jsonFile,
  };
}

function demandValue(name: string, value: string | undefined): string {
  if (value === undefined || value === "") throw new Fault(400, `${name} needs a value; ${USAGE}`);
  return value;
}

function parseRounds(text: string): number {
  const rounds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (rounds < 1 || rounds > ROUNDS_MAX) {
    throw new Fault(400, `--rounds must be a whole number from 1 to ${ROUNDS_MAX}, not "${text}"`);
  }
  return rounds;
}

function demandRow(name: string, rows: readonly Choice[]): string {
  if (rows.some((row) => row.name === name)) return name;
  throw new Fault(400, `there is no row "${name}". Rows: ${rows.map((row) => row.name).join(", ")}`);
}
