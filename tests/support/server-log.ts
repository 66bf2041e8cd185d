/** What servers of tests report besides information. The runner prints it for each file with a failed test. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** Names the folder in which test processes keep these lines, one file for each test file. */
export const SERVER_LOGS = "SANDLOT_TEST_SERVER_LOGS";
const PROJECT = join(import.meta.dir, "../..");
const SHOWN_MAX_LINES = 100;
const LINE_MAX_CHARS = 4000;

/** Keeps a line of a server's log under the test file that runs now: files of one process share servers. */
export function keepServerLine(line: string): void {
  const folder = process.env[SERVER_LOGS];
  if (folder === undefined || line === "" || line.includes('"level":"info"')) return;
  mkdirSync(folder, { recursive: true });
  appendFileSync(pathIn(folder, relative(PROJECT, Bun.main)), `${line.slice(0, LINE_MAX_CHARS)}\n`);
}

/** The last lines that were kept under `file`. */
export function serverLinesOf(file: string, folder: string): string[] {
  const path = pathIn(folder, file);
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8").trimEnd().split("\n").slice(-SHOWN_MAX_LINES);
}

function pathIn(folder: string, file: string): string {
  return join(folder, file.replaceAll("/", "+"));
}
