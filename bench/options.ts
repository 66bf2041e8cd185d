/** The command line of the benchmark. */
import { resolve } from "node:path";
import { Fault } from "../src/contract/fault.ts";
import { ROWS } from "./rows.ts";

export interface Options {
  /** How often each side of a row is measured. */
  rounds: number;
  /** Names of the rows to run. */
  rows: string[];
  /** Where the figures are written besides the terminal. */
  jsonFile: string | undefined;
}

const ROUNDS_DEFAULT = 20;
const ROUNDS_MAX = 10_000;
const USAGE = "sandlot bench takes --rounds N, --row NAME and --json FILE";

export function parseOptions(args: readonly string[]): Options {
  const options: Options = { rounds: ROUNDS_DEFAULT, rows: ROWS.map((row) => row.name), jsonFile: undefined };
  for (let at = 0; at < args.length; at += 2) {
    const [name = "", value] = args.slice(at, at + 2);
    if (!["--rounds", "--row", "--json"].includes(name)) throw new Fault(400, `"${name}" is not known; ${USAGE}`);
    if (value === undefined || value === "") throw new Fault(400, `${name} needs a value; ${USAGE}`);
    if (name === "--rounds") options.rounds = parseRounds(value);
    if (name === "--row") options.rows = [demandRow(value)];
    if (name === "--json") options.jsonFile = resolve(value);
  }
  return options;
}

function parseRounds(text: string): number {
  const rounds = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (rounds < 1 || rounds > ROUNDS_MAX) {
    throw new Fault(400, `--rounds must be a whole number from 1 to ${ROUNDS_MAX}, not "${text}"`);
  }
  return rounds;
}

function demandRow(name: string): string {
  if (ROWS.some((row) => row.name === name)) return name;
  throw new Fault(400, `there is no row "${name}". Rows: ${ROWS.map((row) => row.name).join(", ")}`);
}
