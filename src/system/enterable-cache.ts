/** The check that every user can enter the cache folder. */
import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { Fault } from "../contract/fault.ts";

const ENTER_AS_OTHER = 0o001;

/**
 * Fault 409 for a cache folder that other users cannot enter: runtimes restore memory as the users of sandboxes, and so
 * must reach the guest there.
 */
export function requireEnterable(cacheFolder: string): void {
  for (let path = cacheFolder; path !== dirname(path); path = dirname(path)) {
    if (!existsSync(path) || (statSync(path).mode & ENTER_AS_OTHER) !== 0) continue;
    throw new Fault(
      409,
      `${path} is closed to other users, so no sandbox could resume with its memory from the cache folder. FIX: ` +
        `chmod o+x ${path}, or set SANDLOT_CACHE to another folder`,
    );
  }
}
