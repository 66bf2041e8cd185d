/** What servers of tests report besides information. The runner prints it below the failures of a run. */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** Names the folder in which test processes keep these lines, one file for each test file. */
export const SERVER_LOGS = "SANDLOT_TEST_SERVER_LOGS";
const PROJECT = join(import.meta.dir, "../..");
const SHOWN_MAX_LINES = 100;
const LINE_MAX_CHARS = 4000;
/** A server repeated what failed unexpectedly, so the test passed: the reason is shown all the same. */
const REPEATED = /"event":"(?:resume repeated after a failure|a sandbox could not be created at the first attempt)"/;

/** Keeps a line of a server's log under the test file that runs now: files of one process share servers. */
export function keepServerLine(line: string): void {
  const folder = process.env[SERVER_LOGS];
  if (folder === undefined || line === "" || line.includes('"level":"info"')) return;
  mkdirSync(folder, { recursive: true });
  appendFileSync(join(folder, relative(PROJECT, Bun.main).replaceAll("/", "+")), `${line.slice(0, LINE_MAX_CHARS)}\n`);
}

/** The last lines kept under each file that failed, and of all others what a server repeated. */
export function serverLinesIn(folder: string, failed: ReadonlySet<string>): Record<string, string[]> {
  const lines: Record<string, string[]> = {};
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const file = name.replaceAll("+", "/");
    const kept = readFileSync(join(folder, name), "utf8").trimEnd().split("\n");
    const shown = failed.has(file) ? kept : kept.filter((line) => REPEATED.test(line));
    if (shown.length > 0) lines[file] = shown.slice(-SHOWN_MAX_LINES);
  }
  return lines;
}
