/**
 * Handles files of lower layers that have several names. A build may change such a file by any name, and all names show
 * the change, because the overlay keeps an index on the disk. The index is not part of an image, where untouched names
 * would show the old file again. So before a disk is copied, the overlay is made to write all names.
 */
import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { systemCode } from "../base/system-code.ts";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { attempt } from "../system/command.ts";
import type { Lower } from "../system/mount/mount-job.ts";
import { unmount } from "../system/mount/unmount.ts";
import type { Disks } from "./disk/disks.ts";

export const IMAGE_COPY_MS = scaled(900_000);
/** Maximum total size of all such names of an image. */
const LINKED_NAMES_MAX_BYTES = 64 * 1024 * 1024;
/** Names to process before yielding the event loop. */
const LINKED_NAMES_TURN = 64;

/** `disk` is the file of a disk that nothing else uses; it is changed. `scratch` is for temporary files. */
export async function writeAllNames(
  disks: Disks,
  disk: string,
  lowers: readonly Lower[],
  scratch: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const folder = join(scratch, "links");
  mkdirSync(folder, { mode: 0o700 });
  try {
    const { root } = await disks.view(disk, lowers, folder);
    const upper = join(folder, "disk/upper");
    // A tenant can have millions of names: the loop yields, and stops when the build is aborted.
    const turns = new Turns(signal);
    for (const names of await linkedNames(root, join(scratch, "names"), signal)) {
      const missing: Buffer[] = [];
      for (const name of names) {
        await turns.next();
        if (!exists(upper, name)) missing.push(name);
      }
      if (missing.length === names.length) continue;
      for (const name of missing) {
        await turns.next();
        writeName(at(root, name));
      }
    }
    // Not detached: when umount returns, everything is in the file.
    for (const name of ["root", "disk"]) await unmount(join(folder, name));
  } finally {
    await disks.releaseMounts(folder);
  }
  await rm(folder, { recursive: true });
}

/** Setting the mode is a change that makes the overlay write the name, even if the mode stays the same. */
function writeName(path: Buffer): void {
  try {
    chmodSync(path, lstatSync(path).mode & 0o7777);
  } catch (cause) {
    // The tenant's disk may be full, or the path too long for the kernel.
    const code = systemCode(cause);
    const what = "the files of the build cannot be kept as an image: not all names of a changed file can be written";
    throw new Fault(422, `${what} (${code})`, { cause });
  }
}

/** The names of each file that has several. A tenant chooses them, so they may be any bytes. */
async function linkedNames(root: string, list: string, signal: AbortSignal | undefined): Promise<Iterable<Buffer[]>> {
  const find = ["find", root, "-xdev", "-type", "f", "-links", "+1", "-fprintf", list, "%D:%i %P\\0"];
  const bounded = ["prlimit", `--fsize=${LINKED_NAMES_MAX_BYTES}`, "setpriv", "--pdeathsig", "KILL", "--", ...find];
  const { exitCode, stderr } = await attempt(bounded, {
    timeoutMs: IMAGE_COPY_MS,
    name: "find",
    ...(signal === undefined ? {} : { signal }),
  });
  signal?.throwIfAborted();
  if (exitCode !== 0) {
    throw new Fault(
      422,
      "the files of the build cannot be kept as an image: too many of them have several names. FIX: copy, do not link",
      { cause: new Error(stderr.slice(-2000)) },
    );
  }
  const content = await readFile(list);
  await rm(list);
  return grouped(content, new Turns(signal));
}

/** Keeps only the offset of each name in the list: with millions of names, one object each would not fit in memory. */
async function grouped(list: Buffer, turns: Turns): Promise<Iterable<Buffer[]>> {
  const places = new Map<string, number[]>();
  for (let start = 0; start < list.length; ) {
    await turns.next();
    const end = list.indexOf(0, start);
    const space = list.indexOf(" ", start);
    const file = list.toString("latin1", start, space);
    const ofFile = places.get(file) ?? [];
    ofFile.push(space + 1, end);
    places.set(file, ofFile);
    start = end + 1;
  }
  return places.values().map((ofFile) => {
    const names: Buffer[] = [];
    for (let nth = 0; nth < ofFile.length; nth += 2) names.push(list.subarray(ofFile[nth], ofFile[nth + 1]));
    return names;
  });
}

/** Yields the event loop from time to time. Throws when the work is aborted. */
class Turns {
  #left = LINKED_NAMES_TURN;

  constructor(readonly signal: AbortSignal | undefined) {}

  async next(): Promise<void> {
    if (--this.#left > 0) return;
    this.#left = LINKED_NAMES_TURN;
    await setImmediate();
    this.signal?.throwIfAborted();
  }
}

function at(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

function exists(folder: string, name: Buffer): boolean {
  return lstatSync(at(folder, name), { throwIfNoEntry: false }) !== undefined;
}
