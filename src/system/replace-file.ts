/** Replaces a file in one step. */
import { renameSync, writeFileSync } from "node:fs";

/**
 * Writes `<path>.new` and renames it, so that a reader, or the next start after a kill, finds a complete file. The file
 * is not synced: a power failure may lose or truncate it. Calls for one path must not overlap.
 */
export function replaceFile(path: string, text: string, mode = 0o600): void {
  writeFileSync(`${path}.new`, text, { mode });
  renameSync(`${path}.new`, path);
}
