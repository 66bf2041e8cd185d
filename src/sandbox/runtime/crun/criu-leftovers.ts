/** Removes what a killed CRIU leaves behind. */
import { lstatSync, readdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { RESTORE_MS } from "../../limits.ts";

/** CRIU has no option for another place. */
const RESTORE_FOLDERS = "/tmp";
const RESTORE_FOLDER = /^\.criu\.mntns\.[A-Za-z0-9]{6}$/;

/**
 * Removes empty folders for the mounts of a restore that a killed CRIU left. A recent one may still be in use by any
 * server and stays: removing it would remove the mounts, too.
 */
export function removeRestoreFolders(folder = RESTORE_FOLDERS): void {
  const before = Date.now() - 2 * RESTORE_MS;
  for (const name of readdirSync(folder).filter((each) => RESTORE_FOLDER.test(each))) {
    const path = join(folder, name);
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (!found?.isDirectory() || found.uid !== 0 || found.mtimeMs > before) continue;
    try {
      rmdirSync(path);
    } catch {
      // Another server was faster, or the folder is something else. In either case the server must still start.
    }
  }
}
