/**
 * Runs the `sandlot` command on a data folder with the store of a first run, without a server. Call it once at the top
 * of a file; it removes the folder after the file.
 */
import { beforeAll } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { ensureFirstRun } from "../../control/first-run.ts";
import { createIds } from "../../control/ids.ts";
import { openStore, type Store } from "../../store/store.ts";
import { attempt } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";

const MAIN = join(import.meta.dir, "../main.ts");

interface CommandResult {
  code: number | null;
  /** Lines. */
  out: string[];
  error: string;
}

export function commandOnStore(prepare: (store: Store, folder: string) => Promise<unknown> = async () => undefined) {
  const folder = folderOfFile("command");
  beforeAll(async () => {
    const store = await openStore(`sqlite://${new DataFolder(folder).storeFile}`, systemClock.now());
    await ensureFirstRun({ store, ids: createIds(), clock: systemClock }, []);
    await prepare(store, folder);
    await store.close();
  });

  const withInput = async (stdin: string, ...args: string[]): Promise<CommandResult> => {
    const { PATH = "" } = process.env;
    const result = await attempt([process.execPath, MAIN, ...args], {
      env: { PATH, SANDLOT_DATA: folder, SANDLOT_RUNSC: "/bin/true" },
      stdin,
    });
    return { code: result.exitCode, out: result.stdout.trim().split("\n"), error: result.stderr.trim() };
  };
  return Object.assign((...args: string[]) => withInput("", ...args), { withInput });
}
