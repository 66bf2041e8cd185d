/**
 * Removes folders of any size and depth, even while sandboxes keep filling them. Folders are emptied one by one without
 * collecting names. A folder too deep for a path is first moved to the root of the volume, under a name by which a
 * later process finds it if this one is interrupted.
 */
import { lstat, rename, rmdir, unlink } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../../../base/system-code.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { below, namesIn } from "./directory.ts";

/** Entries to remove in one step, and the time limit for the whole removal: half of a call's timeout. */
export const CONTENT_REMOVE_BATCH = 1_000;
const CONTENT_REMOVE_MS = scaled(60_000);

const MOVED = ".sandlot-removed-";
/** Far below the kernel's path limit, with room for the longest name. */
const PATH_LONG_BYTES = 2048;

/**
 * Removes what an interrupted process left. Sandboxes can give millions of entries such names, so only one batch is
 * removed; the next process continues, and calls are served meanwhile.
 */
export async function removeLeftovers(root = ""): Promise<void> {
  const found: Buffer[] = [];
  let looked = 0;
  for (const { name } of namesIn(`${root}/`)) {
    if (name.toString("latin1").startsWith(MOVED)) found.push(below(Buffer.from(root), name));
    if (found.length === CONTENT_REMOVE_BATCH) break;
    if (++looked % CONTENT_REMOVE_BATCH === 0) await setImmediate();
  }
  for (const path of found) await removeTree(path);
}

/** Throws ENOENT when there is nothing. */
export async function removeTree(path: Buffer): Promise<void> {
  const deadline = performance.now() + CONTENT_REMOVE_MS;
  if (!(await lstat(path)).isDirectory()) return await unlink(path);
  // A stack: the last folder is emptied first; before it are its parents and folders that were moved up.
  const left = [path];
  for (let folder = left.at(-1); folder !== undefined; folder = left.at(-1)) {
    if (performance.now() > deadline) throw stillThere();
    if (await isGone(folder)) left.pop();
    else left.push(...(await emptied(folder)));
  }
}

async function isGone(folder: Buffer): Promise<boolean> {
  try {
    await rmdir(folder);
    return true;
  } catch (thrown) {
    const code = systemCode(thrown);
    if (code === "ENOTEMPTY") return false;
    if (code === "ENOENT") return true;
    // A sandbox has replaced the folder by something else.
    if (code !== "ENOTDIR") throw thrown;
    await unlink(folder).catch(ignoreMissing);
    return true;
  }
}

/** Removes files of a folder and returns some of its subfolders, to be emptied before the folder is read again. */
async function emptied(folder: Buffer): Promise<Buffer[]> {
  const folders: Buffer[] = [];
  let looked = 0;
  for (const { name, isFolder } of namesIn(folder)) {
    const path = below(folder, name);
    if (isFolder) folders.push(path.length < PATH_LONG_BYTES ? path : await movedUp(path));
    else await unlink(path).catch(ignoreMissing);
    if (++looked === CONTENT_REMOVE_BATCH) break;
  }
  return folders;
}

async function movedUp(path: Buffer): Promise<Buffer> {
  const place = Buffer.from(`/${MOVED}${crypto.randomUUID()}`);
  await rename(path, place);
  return place;
}

function ignoreMissing(thrown: NodeJS.ErrnoException): void {
  // A folder that replaced a file is found when its parent is read again.
  if (!["ENOENT", "EISDIR", "EPERM"].includes(thrown.code ?? "")) throw thrown;
}

function stillThere(): Fault {
  return new Fault(503, "the folder has too many entries for one call, or is being filled meanwhile; try again");
}
