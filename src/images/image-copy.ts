/**
 * Copies the files that a finished build has written from its disk into a folder. A tenant controls their names, links,
 * sizes and counts. So they are read from a clone that nothing writes to, links are never followed, only regular files
 * are opened, and time and space are bounded.
 */
import { existsSync, lstatSync, mkdirSync, statfsSync } from "node:fs";
import { readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { attempt, run } from "../system/command.ts";
import type { IdForm } from "../system/id-range.ts";
import { formOf } from "../system/mount/layers.ts";
import type { Lower } from "../system/mount/mount-job.ts";
import { unmount } from "../system/mount/unmount.ts";
import type { Disks } from "./disk/disks.ts";
import { IMAGE_COPY_MS, writeAllNames } from "./hard-links.ts";

/** Changed files for the mount thread to check before other jobs get their turn. */
const IMAGE_INDEX_TURN = 512;
const IMAGE_ROOM_CHECK_MS = 500;

/** Preserves everything, or fails: whiteouts are device nodes, and other overlay data is in attributes. */
const COPY = ["cp", "--recursive", "--no-dereference", "--preserve=mode,ownership,timestamps,links,xattr"];

interface Copy {
  disk: string;
  folder: string | undefined;
  lowers: readonly Lower[];
  target: string;
  scratch: string;
  signal: AbortSignal | undefined;
}

/** Returns the form of the owners. */
export async function copyUpper(
  disks: Disks,
  { disk, folder: part = "", lowers, target, scratch, signal }: Copy,
): Promise<IdForm> {
  const clone = join(scratch, "disk.img");
  await cloneWithAllNames(disks, disk, clone, lowers, scratch, signal);
  const ids = await look(disks, clone, scratch, async (folder) => {
    const { blocks, bfree, bsize } = statfsSync(folder);
    disks.requireSpace((blocks - bfree) * bsize);
    await copyWatched(disks, partOf(join(folder, "upper"), part), target, signal);
    return formOf(folder);
  });
  await rm(clone);
  return ids;
}

/**
 * Clones a disk, and writes all names of changed files on the clone: it then shows the same files without its overlay's
 * index. Returns whether names had to be written.
 */
export async function cloneWithAllNames(
  disks: Disks,
  disk: string,
  clone: string,
  lowers: readonly Lower[],
  scratch: string,
  signal?: AbortSignal,
): Promise<boolean> {
  await disks.clone(disk, clone);
  const lacks = await look(disks, clone, scratch, (folder) => lacksNames(disks, folder, signal));
  if (!lacks || lowers.length === 0) return false;
  await writeAllNames(disks, clone, lowers, scratch, signal);
  return true;
}

/** Whether the mounted disk lacks names of a changed file. */
async function lacksNames(disks: Disks, folder: string, signal: AbortSignal | undefined): Promise<boolean> {
  const index = join(folder, "work/index");
  const names = existsSync(index) ? await readdir(index) : [];
  for (let first = 0; first < names.length; first += IMAGE_INDEX_TURN) {
    signal?.throwIfAborted();
    const some = names.slice(first, first + IMAGE_INDEX_TURN);
    if (await disks.mounts.do({ kind: "lacks-names", index, names: some })) return true;
  }
  return false;
}

/** Mounts the disk unmapped, with its own ids, while `use` runs. */
async function look<Result>(disks: Disks, image: string, scratch: string, use: (folder: string) => Promise<Result>) {
  const target = join(scratch, "disk");
  mkdirSync(target, { mode: 0o700 });
  await disks.mounts.do({ kind: "look", image, target, type: "ext4" });
  try {
    return await use(target);
  } finally {
    await unmount(target);
    await rmdir(target);
  }
}

/** Resolves a tenant's folder below another. Each part must be a folder, because a link could lead anywhere. */
function partOf(upper: string, part: string): string {
  let path = upper;
  for (const name of part.split("/").filter((word) => word !== "")) {
    path = join(path, name);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) continue;
    throw new Fault(422, `there is no folder "${part}" on the disk of the build`);
  }
  return path;
}

async function copyWatched(disks: Disks, from: string, to: string, signal: AbortSignal | undefined): Promise<void> {
  const room = new AbortController();
  const watch = setInterval(() => {
    try {
      disks.requireSpace(0);
    } catch (cause) {
      room.abort(cause);
    }
  }, IMAGE_ROOM_CHECK_MS);
  try {
    // The copy must end with this server; otherwise it would write into a folder that the next server removes.
    const argv = ["setpriv", "--pdeathsig", "KILL", "--", ...COPY, "--no-target-directory", "--", from, to];
    const wanted = AbortSignal.any([room.signal, ...(signal === undefined ? [] : [signal])]);
    wanted.throwIfAborted();
    const { exitCode, stderr } = await attempt(argv, { timeoutMs: IMAGE_COPY_MS, signal: wanted, name: "cp" });
    wanted.throwIfAborted();
    if (exitCode !== 0) throw copyFault(stderr);
  } finally {
    clearInterval(watch);
  }
}

/** Each line of cp names a path of this machine, which is dropped, and ends with the kernel's reason. */
function copyFault(message: string): Fault {
  const reason = message.trim().split("\n").at(-1)?.split(": ").at(-1) ?? "";
  if (reason === "No space left on device") return new Fault(507, "the disk has no space for this image");
  const hint = reason === "File name too long" ? ". FIX: remove folders that are nested so deeply" : "";
  const cause = new Error(message.slice(-2000));
  return new Fault(422, `the files of the build cannot be kept as an image: ${reason}${hint}`, { cause });
}

export async function bytesOf(folder: string): Promise<number> {
  const output = await run(["du", "--summarize", "--block-size=1", "--", folder], { timeoutMs: IMAGE_COPY_MS });
  return Number(output.split("\t")[0]);
}
