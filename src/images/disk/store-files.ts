/**
 * The store's files on btrfs, which writes everything to a new place: on a full disk not even a byte that is there
 * already could be written anew, and the file that SQLite maps into memory would end the server. So they are made
 * ahead, as files that are written in place. Elsewhere there is nothing to do.
 */
import { existsSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { run } from "../../system/command.ts";
import { BTRFS } from "./pool.ts";

/**
 * The database, its log, and the log's index. SQLite takes the last two away when it closes, and takes empty ones as
 * new.
 */
const ENDINGS = ["", "-wal", "-shm"];

/** To be called before the store is opened. A file that has something in it stays as it is. */
export async function prepareStoreFiles(storeFile: string): Promise<void> {
  if (statfsSync(dirname(storeFile)).type !== BTRFS) return;
  const fresh = ENDINGS.map((ending) => storeFile + ending).filter(
    (path) => !existsSync(path) || statSync(path).size === 0,
  );
  for (const path of fresh) writeFileSync(path, "", { mode: 0o600 });
  if (fresh.length > 0) await run(["chattr", "+C", ...fresh]);
}
