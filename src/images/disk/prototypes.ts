/** Formatted, empty disks, one per size: a new disk is a clone of one and needs no formatting. */
import { chownSync, existsSync, mkdirSync } from "node:fs";
import { mkdir, rename, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { MIB } from "../../contract/limit.ts";
import { run } from "../../system/command.ts";
import { HOST_ID_FIRST, HOST_ROOT_ON_DISK, type IdForm } from "../../system/id-range.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { unmount } from "../../system/mount/unmount.ts";
import { makeSparse } from "./sparse-file.ts";

/** Bytes per inode on a sandbox's disk. A disk below DISK_SMALL_MB uses the default of mke2fs. */
export const DISK_BYTES_PER_FILE = 16 * 1024;
export const DISK_SMALL_MB = 512;

/**
 * Without barriers: after a crash of the machine a running sandbox is gone anyway, and a checkpoint is made durable as
 * a whole. So a sync inside needs no round trip to the machine's disk.
 */
export const EXT4_MOUNT = "noinit_itable,discard,barrier=0";

export class Prototypes {
  readonly #made = new Map<string, Promise<string>>();

  /** `folder` also holds the disks that are cloned from the prototypes. */
  constructor(
    private readonly folder: string,
    private readonly mounts: Mounts,
  ) {}

  /** The file of the prototype with this size and form, made on first use. */
  of(sizeMB: number, ids: IdForm): Promise<string> {
    const name = ids === "plain" ? `prototype-${sizeMB}-plain.ext4` : `prototype-${sizeMB}.ext4`;
    let prototype = this.#made.get(name);
    if (prototype === undefined) {
      prototype = this.#make(join(this.folder, name), sizeMB, ids);
      prototype.catch(() => this.#made.delete(name));
      this.#made.set(name, prototype);
    }
    return prototype;
  }

  async #make(path: string, sizeMB: number, ids: IdForm): Promise<string> {
    if (existsSync(path)) return path;
    const unfinished = `${path}.unfinished`;
    await makeSparse(unfinished, sizeMB * MIB);
    await run([
      "mkfs.ext4",
      "-q",
      "-F",
      "-m",
      "0",
      ...(sizeMB < DISK_SMALL_MB ? [] : ["-i", String(DISK_BYTES_PER_FILE)]),
      "-O",
      "^has_journal",
      "-E",
      "lazy_itable_init=1,nodiscard",
      unfinished,
    ]);
    const folder = `${path}.folder`;
    await mkdir(folder, { recursive: true });
    await this.mounts.do({ kind: "loop", image: unfinished, target: folder, type: "ext4", options: EXT4_MOUNT });
    try {
      await rmdir(join(folder, "lost+found"));
      for (const name of ["upper", "work"]) mkdirSync(join(folder, name), { mode: 0o755 });
      // `upper` belongs to the root of the sandbox, `work` to the root of the machine.
      if (ids === "shifted") chownSync(join(folder, "upper"), HOST_ID_FIRST, HOST_ID_FIRST);
      else chownSync(join(folder, "work"), HOST_ROOT_ON_DISK, HOST_ROOT_ON_DISK);
    } finally {
      // A plain umount: when it returns, everything is in the file.
      await unmount(folder);
    }
    await rmdir(folder);
    await rename(unfinished, path);
    return path;
  }
}
