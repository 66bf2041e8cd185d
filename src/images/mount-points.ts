/** Paths where a sandbox has its own mounts: an image must have folders there, or nothing. */
import { lstatSync, type Stats } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";

const MOUNTED = ["/proc", "/sys", "/dev", "/run"];
/** Folders that every sandbox writes to. A link to a folder is allowed. */
const WRITTEN = ["/etc", "/home", "/root", "/tmp", "/usr", "/var", "/code"];

/** Throws Fault 422 for the first that is something else. `layers`: folders, topmost first. */
export function requireMountPoints(layers: readonly string[], guest: string): void {
  for (const path of [...MOUNTED, guest]) {
    const found = findIn(layers, path);
    if (found === undefined || found.isDirectory()) continue;
    throw refusal(path, found, "sandboxes mount their own there, so it must be a folder or absent");
  }
  for (const path of WRITTEN) {
    const found = findIn(layers, path);
    if (found === undefined || found.isDirectory() || found.isSymbolicLink()) continue;
    throw refusal(path, found, "sandboxes keep files there, so it must be a folder or absent");
  }
}

/** The entry as an overlay of the layers would show it. */
function findIn(layers: readonly string[], path: string): Stats | undefined {
  for (const layer of layers) {
    // Directly below the root, so no link of the image is followed.
    const found = lstatSync(join(layer, path), { throwIfNoEntry: false });
    if (found === undefined) continue;
    const isWhiteout = found.isCharacterDevice() && found.rdev === 0;
    return isWhiteout ? undefined : found;
  }
  return undefined;
}

function refusal(path: string, found: Stats, why: string): Fault {
  const kind = found.isSymbolicLink() ? "a symbolic link" : found.isFile() ? "a file" : "neither a file nor a folder";
  return new Fault(422, `the image cannot be used: ${path} in it is ${kind}; ${why}`);
}
