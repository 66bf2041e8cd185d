/** What CRIU leaves when it is killed. */
import { lstatSync, readdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { RESTORE_MS } from "../../limits.ts";

/** CRIU knows no other place for it. */
const RESTORE_FOLDERS = "/tmp";
const RESTORE_FOLDER = /^\.criu\.mntns\.[A-Za-z0-9]{6}$/;

/**
 * The empty folder, made for the mounts of a restore, that CRIU leaves when it is killed. One that may still be in use,
 * by whichever server, is too young to go: taken away, it would take the mounts with it.
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
      // Another server was quicker, or it is not what it looks like. Whatever it is, a start must not fail of it.
    }
  }
}
