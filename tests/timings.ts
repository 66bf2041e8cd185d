/**
 * How long each test file took in the last whole run on this machine. Lanes that run files side by side start the
 * longest first, because a long file that starts last runs on alone. Without a record, a file with more text is
 * expected to take longer: on a new machine that is nearly as good.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { PROJECT } from "./conventions/source-files.ts";

function recordFile(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sandlot/test-timings.json");
}

export function expectedMs(files: readonly string[], record = recordFile()): Record<string, number> {
  const known = recorded(record);
  return Object.fromEntries(files.map((file) => [file, known[file] ?? statSync(join(PROJECT, file)).size]));
}

export function recordMs(took: Readonly<Record<string, number>>, record = recordFile()): void {
  try {
    mkdirSync(dirname(record), { recursive: true });
    const draft = `${record}.${process.pid}`;
    writeFileSync(draft, JSON.stringify(Object.assign(recorded(record), took)));
    renameSync(draft, record);
  } catch (error) {
    console.error(`test timings are not recorded: ${error instanceof Error ? error.message : error}`);
  }
}

function recorded(record: string): Record<string, number> {
  if (!existsSync(record)) return {};
  try {
    const read: unknown = JSON.parse(readFileSync(record, "utf8"));
    const entries = typeof read === "object" && read !== null ? Object.entries(read) : [];
    return Object.fromEntries(entries.filter(([, ms]) => Number.isFinite(ms) && ms >= 0));
  } catch {
    return {};
  }
}
