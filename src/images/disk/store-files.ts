/**
 * Prepares the store's files on btrfs. btrfs is copy-on-write: on a full disk not even existing bytes could be
 * overwritten, and a write to SQLite's memory-mapped file would crash the server. So the files are made in advance
 * without copy-on-write. On other filesystems this does nothing.
 */
import { existsSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { run } from "../../system/command.ts";
import { BTRFS } from "./disk-pool.ts";

/** The database, its log, and the log's index. SQLite accepts empty ones as new. */
const ENDINGS = ["", "-wal", "-shm"];

/** To be called before the store is opened. A file with content stays unchanged. */
export async function prepareStoreFiles(storeFile: string): Promise<void> {
  if (statfsSync(dirname(storeFile)).type !== BTRFS) return;
  const fresh = ENDINGS.map((ending) => storeFile + ending).filter(
    (path) => !existsSync(path) || statSync(path).size === 0,
  );
  for (const path of fresh) writeFileSync(path, "", { mode: 0o600 });
  if (fresh.length > 0) await run(["chattr", "+C", ...fresh]);
}
