/**
 * Removes folders with all that is in them, however much and however deep that is, while sandboxes may go on filling
 * them. Nothing is gathered: folders are emptied one by one, and what lies deeper than a path can say is moved up to
 * the root of the volume first, under a name that the next process knows, should this one not come to it.
 */
import { lstat, rename, rmdir, unlink } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { below, namesIn } from "./directory.ts";

/** A folder is emptied in steps of so many entries, and all of it within the first half of a call's time. */
export const CONTENT_REMOVE_BATCH = 1_000;
const CONTENT_REMOVE_MS = scaled(60_000);

const MOVED = ".sandlot-removed-";
/** Far below what the kernel takes for a path, with room for the longest name. */
const PATH_LONG_BYTES = 2048;

/**
 * What a process before this one has not come to. Sandboxes can give millions of entries any name: so many are removed,
 * the next process goes on, and calls are answered meanwhile.
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
  // The last is emptied first; those before are the folders around it, and what was moved up.
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
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "ENOTEMPTY") return false;
    if (code === "ENOENT") return true;
    // Somebody has put another thing in its place.
    if (code !== "ENOTDIR") throw thrown;
    await unlink(folder).catch(ignoreMissing);
    return true;
  }
}

/** Removes files of a folder and answers some of its folders, which are to be emptied before it is looked at again. */
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
  // A folder in the place of a file is found when its own folder is looked at again.
  if (!["ENOENT", "EISDIR", "EPERM"].includes(thrown.code ?? "")) throw thrown;
}

function stillThere(): Fault {
  return new Fault(503, "the folder has too many entries for one call, or is being filled meanwhile; try again");
}
