/** What every Start does, in whichever form it came. */
import type { Journal } from "../journal/journal.ts";
import type { MeminfoFile } from "../system/meminfo-file.ts";
import type { Account } from "../users/accounts.ts";
import type { Launch, StartCall } from "./launcher.ts";
import { noteFailedStart, noteProcess } from "./process-notes.ts";
import type { ProcessTable } from "./process-table.ts";
import type { Subscription } from "./subscription.ts";

export type StartProcess = (
  call: StartCall,
  account: Account,
  lifetimeMs: number | undefined,
) => { pid: number; subscription: Subscription };

export function createStart(
  table: ProcessTable,
  launch: Launch,
  journal: Journal,
  meminfoFile: MeminfoFile,
): StartProcess {
  const noted: Launch = (call, account, lifetimeMs) => {
    meminfoFile.refresh();
    try {
      return launch(call, account, lifetimeMs);
    } catch (thrown) {
      noteFailedStart(journal, call, account, thrown);
      throw thrown;
    }
  };
  return (call, account, lifetimeMs) => {
    const started = noted(call, account, lifetimeMs);
    // Same turn of the event loop as the spawn: no output can have been read before this listener exists.
    const subscription = started.subscribe();
    table.add(started);
    noteProcess(journal, started, account, lifetimeMs);
    return { pid: started.pid, subscription };
  };
}
