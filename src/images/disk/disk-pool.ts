/**
 * The disk pool, the folder for the disks of sandboxes: on the data folder's own filesystem if that can share blocks
 * between files, else on a btrfs in a file there, else on any filesystem, where a clone is a copy.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { attempt, run } from "../../system/command.ts";
import { deviceOf } from "../../system/mount/loop-devices.ts";
import { mountPoints } from "../../system/mount/mount-namespace.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { makeSparse } from "./sparse-file.ts";

/** Minimum size of a pool in a file, and the timeout for its loop device to be released. */
const POOL_MIN_BYTES = 4 * 1024 ** 3;
const POOL_RELEASE_MS = scaled(20_000);
const POOL_POLL_MS = 20;

/** Filesystem type of statfs(2). */
export const BTRFS = 0x9123683e;

/**
 * mkfs.btrfs reads the device of every mounted btrfs, and fails when one disappears meanwhile, for example another
 * server's. In its own mount namespace none disappears.
 */
const WITH_MOUNTS_THAT_STAY = ["unshare", "--mount", "--propagation=private", "--"];

export interface DiskPool {
  folder: string;
  /** Whether copies share blocks. */
  reflink: boolean;
}

/** The folder of the disks, and the file of the filesystem mounted there, if there is one. */
export function diskPoolFiles(dataFolder: string): { folder: string; image: string } {
  return { folder: join(dataFolder, "disks"), image: join(dataFolder, "disks.btrfs") };
}

/** Finds or makes a place where disks can be cloned cheaply; falls back to sparse copies. */
export async function openDiskPool(dataFolder: string, mounts: Mounts): Promise<DiskPool> {
  const { folder } = diskPoolFiles(dataFolder);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (isDiskPoolBroken(dataFolder)) {
    throw new Fault(
      500,
      `the disks of sandboxes below ${dataFolder} can only be read since an error, most often because the disk under ` +
        "them was full. FIX: free space there, then `sandlot down`, which ends what still runs, and start again. " +
        "What is paused is kept",
    );
  }
  // Without btrfs in the kernel, disks are sparse copies; `sandlot doctor` reports it.
  if (!(await canReflink(folder, mounts)) && (await hasBtrfs())) await mountPool(dataFolder, folder, mounts);
  // The root of a new filesystem is open to all users.
  chmodSync(folder, 0o700);
  return { folder, reflink: await canReflink(folder, mounts) };
}

async function canReflink(folder: string, mounts: Mounts): Promise<boolean> {
  // Known without a test, which needs space: a server must also start, and be torn down, on a full disk.
  if (statfsSync(folder).type === BTRFS) return true;
  const [source, target] = [join(folder, ".reflink-a"), join(folder, ".reflink-b")];
  writeFileSync(source, "x".repeat(8192));
  try {
    return await mounts.do({ kind: "reflink", source, target });
  } finally {
    await rm(source, { force: true });
    await rm(target, { force: true });
  }
}

/** A btrfs in a sparse file, for filesystems that cannot share blocks. It takes only what sandboxes write. */
async function mountPool(dataFolder: string, target: string, mounts: Mounts): Promise<void> {
  const { image: file } = diskPoolFiles(dataFolder);
  if (!existsSync(file)) {
    const { bavail, bsize } = statfsSync(dataFolder);
    const unfinished = `${file}.unfinished`;
    await makeSparse(unfinished, Math.max(POOL_MIN_BYTES, Math.floor((bavail * bsize) / 1024 ** 3) * 1024 ** 3));
    await run([...WITH_MOUNTS_THAT_STAY, "mkfs.btrfs", "--quiet", "--force", "--metadata", "single", unfinished]);
    await rename(unfinished, file);
  }
  const job = { target, type: "btrfs", options: "discard=async" } as const;
  const deadline = performance.now() + POOL_RELEASE_MS;
  for (;;) {
    const device = deviceOf(file);
    if (device === undefined) return void (await mounts.do({ kind: "loop", image: file, ...job }));
    // Still in use by sandboxes whose server lost its mount namespace: a second device on the same file would corrupt
    // it.
    const failure = await mounts.do({ kind: "device", device, ...job }).then(
      () => undefined,
      (cause: unknown) => ({ cause }),
    );
    // If they released the device meanwhile, it is empty or has another file by now.
    if (deviceOf(file) === device) {
      if (failure === undefined) return;
      if (performance.now() > deadline) throw failure.cause;
    } else if (failure === undefined) await mounts.do({ kind: "detach", target });
    await Bun.sleep(POOL_POLL_MS);
  }
}

/** After an error the kernel makes a filesystem read-only until it is mounted again. */
export function isDiskPoolBroken(dataFolder: string): boolean {
  const { folder: pool } = diskPoolFiles(dataFolder);
  if (!mountPoints().includes(pool)) return false;
  const probe = join(pool, ".writable");
  try {
    writeFileSync(probe, "");
    return false;
  } catch (error) {
    return ["EROFS", "EIO"].includes(systemCode(error));
  }
}

/** No process may use the pool any more. Resolves when it can be mounted again. */
export async function releaseDiskPool(dataFolder: string): Promise<void> {
  await run(["umount", "--lazy", join(dataFolder, "disks")]);
  const deadline = performance.now() + POOL_RELEASE_MS;
  while (deviceOf(join(dataFolder, "disks.btrfs")) !== undefined && performance.now() < deadline) {
    await Bun.sleep(POOL_POLL_MS);
  }
}

/** Whether the kernel has btrfs built in or as a loadable module. */
async function hasBtrfs(): Promise<boolean> {
  const listed = () => /\bbtrfs$/m.test(readFileSync("/proc/filesystems", "utf8"));
  if (!listed() && Bun.which("modprobe") !== null) await attempt(["modprobe", "btrfs"]);
  return listed();
}
