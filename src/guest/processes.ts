/**
 * Processes, and what starts them for most clients: loaded with the first Start. What answers all other calls
 * (calls.ts) works on the same processes.
 */
import type { Journal } from "./journal/journal.ts";
import { createLaunch } from "./process/launcher.ts";
import { handOutputsOver } from "./process/pipes.ts";
import { PlainStarts } from "./process/plain-start.ts";
import { ProcessTable } from "./process/process-table.ts";
import { createStart, type StartProcess } from "./process/starting.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import type { SettingsKeeper } from "./users/settings.ts";

export interface Processes {
  table: ProcessTable;
  start: StartProcess;
  plainStarts: PlainStarts;
  /** Lets all processes go on without this guest. */
  letGo(): void;
}

export function createProcesses(
  settings: SettingsKeeper,
  journal: Journal,
  meminfoFile: MeminfoFile,
  { path, setpriv }: { path: string | undefined; setpriv: string | undefined },
): Processes {
  const table = new ProcessTable();
  const start = createStart(table, createLaunch(settings, path, setpriv), journal, meminfoFile);
  return { table, start, plainStarts: new PlainStarts(start), letGo: handOutputsOver };
}
