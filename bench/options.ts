/** The command line of the benchmark. */
import { resolve } from "node:path";
import { Fault } from "../src/contract/fault.ts";

export interface Options {
  /** How often each side of a row is measured. */
  rounds: number;
  /** Names of the rows to run. */
  rows: string[];
  /** The full sizes and times of the heavy rows. */
  long: boolean;
  /** Where the figures are written besides the terminal. */
  jsonFile: string | undefined;
}

const ROUNDS_DEFAULT = 20;
const ROUNDS_MAX = 10_000;
const USAGE = "sandlot bench takes --rounds N, --row NAME (once or more), --long and --json FILE";

/** `rows`: the names of all there are. */
export function parseOptions(args: readonly string[], rows: readonly string[]): Options {
  const options: Options = { rounds: ROUNDS_DEFAULT, rows: [...rows], long: false, jsonFile: undefined };
  const chosen: string[] = [];
  const left = [...args];
  for (let name = left.shift(); name !== undefined; name = left.shift()) {
    if (name === "--long") options.long = true;
    else if (name === "--rounds") options.rounds = parseRounds(demandValue(name, left.shift()));
    else if (name === "--row") chosen.push(demandRow(demandValue(name, left.shift()), rows));
    else if (name === "--json") options.jsonFile = resolve(demandValue(name, left.shift()));
    else throw new Fault(400, `"${name}" is not known; ${USAGE}`);
  }
  return chosen.length === 0 ? options : { ...options, rows: chosen };
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

function demandRow(name: string, rows: readonly string[]): string {
  if (rows.includes(name)) return name;
  throw new Fault(400, `there is no row "${name}". Rows: ${rows.join(", ")}`);
}
