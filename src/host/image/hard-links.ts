/**
 * Files of lower layers with several names. Whichever name such a file is changed by in a build, all of them show the
 * change: the overlay has an index of those on the disk. The index is no part of an image, where the names that were
 * not touched would show the old file again. So before a disk is copied the overlay is made to write all names down.
 */
import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import type { Disks } from "../disk/disks.ts";
import { IMAGE_COPY_MS, LINKED_NAMES_MAX_BYTES } from "../limits.ts";
import type { Lower } from "../mount/lower.ts";
import { attempt, run } from "../system/command.ts";

/** `disk` is the file of a disk that is nobody else's; it is changed. `scratch` is for what is needed meanwhile. */
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
    for (const names of await linkedNames(root, join(scratch, "names"), signal)) {
      const missing = names.filter((name) => !exists(upper, name));
      if (missing.length === names.length) continue;
      for (const name of missing) writeName(at(root, name));
    }
    // Not detached: when this returns, everything is in the file.
    for (const name of ["root", "disk"]) await run(["umount", join(folder, name)]);
  } finally {
    await disks.releaseMounts(folder);
  }
  await rm(folder, { recursive: true });
}

/** To set the mode is a change, for which the overlay writes the name; that it is the same mode does not matter. */
function writeName(path: Buffer): void {
  try {
    chmodSync(path, lstatSync(path).mode & 0o7777);
  } catch (cause) {
    // The tenant's own disk may be full, or the path longer than the kernel takes.
    const { code } = cause as NodeJS.ErrnoException;
    const what = "the files of the build cannot be kept as an image: not all names of a changed file can be written";
    throw new Fault(422, `${what} (${code})`, { cause });
  }
}

/** The names of each file that has several. They are a tenant's, and may be any bytes. */
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
  const groups = new Map<string, Buffer[]>();
  const content = await readFile(list);
  await rm(list);
  for (let start = 0; start < content.length; ) {
    const end = content.indexOf(0, start);
    const space = content.indexOf(" ", start);
    const file = content.toString("latin1", start, space);
    const names = groups.get(file) ?? [];
    names.push(content.subarray(space + 1, end));
    groups.set(file, names);
    start = end + 1;
  }
  return groups.values();
}

function at(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

function exists(folder: string, name: Buffer): boolean {
  return lstatSync(at(folder, name), { throwIfNoEntry: false }) !== undefined;
}
