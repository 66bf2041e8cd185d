/**
 * Disks of sandboxes: one sized ext4 image each, cloned from a formatted prototype. The image holds the upper layer of an
 * overlay over the shared, read-only image layers, so `df` inside tells the sandbox's own size and a full disk is ENOSPC for
 * that sandbox alone.
 *
 * The host's view of a disk is short: it is mounted, the sandbox starts on it, and it is detached from the host again. From
 * then on the sandbox's own mount namespace is the only thing that holds it, so that its end frees disk, loop device and all.
 */
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { mkdir, open, readdir, rename, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { mountPoints } from "../mount/mount-namespace.ts";
import type { Mounts } from "../mount/mounts.ts";
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../network/address-plan.ts";
import { HOSTNAME } from "../network/hostname.ts";
import { attempt, run } from "../system/command.ts";
import { HOST_ID_FIRST } from "../system/id-range.ts";

/** Below this much free space no new sandbox is made: the running ones need it. */
const FREE_MIN_BYTES = 1024 ** 3;
const POOL_MIN_BYTES = 4 * 1024 ** 3;
/** As statfs(2) tells it. */
export const BTRFS = 0x9123683e;
const POOL_RELEASE_MS = 20_000;
const POOL_LOOK_EVERY_MS = 20;
/**
 * No barriers: after a crash of the machine a running sandbox is gone anyhow, and a checkpoint is made durable as a whole. So a
 * sync inside costs no round to the machine's disk.
 */
const EXT4_MOUNT = "noinit_itable,discard,barrier=0";

export interface Disk {
  /** The root filesystem of the sandbox, mounted in this process's view until `release`. */
  root: string;
  /** Takes the mounts out of the host's view. */
  release(): Promise<void>;
}

export class Disks {
  readonly #pool: string;
  readonly #prototypes = new Map<number, Promise<string>>();

  private constructor(
    readonly mounts: Mounts,
    pool: string,
    /** Whether copies share blocks. */
    readonly reflink: boolean,
  ) {
    this.#pool = pool;
  }

  /** Finds or makes a place where disks can be cloned cheaply; falls back to sparse copies where the kernel has none. */
  static async open(dataFolder: string, mounts: Mounts): Promise<Disks> {
    const pool = join(dataFolder, "disks");
    mkdirSync(pool, { recursive: true, mode: 0o711 });
    if (isPoolBroken(dataFolder)) {
      throw new Fault(
        500,
        `the disks of sandboxes below ${dataFolder} can only be read since an error, most often because the disk under them was ` +
          "full. FIX: free space there, then `sandlot down`, which ends what still runs, and start again. What is paused is kept",
      );
    }
    // Without btrfs in the kernel, disks are sparse copies; the doctor says so.
    if (!(await canReflink(pool, mounts)) && (await hasBtrfs())) await mountPool(dataFolder, pool, mounts);
    return new Disks(mounts, pool, await canReflink(pool, mounts));
  }

  /**
   * A name for a new disk. It says nothing about its sandbox: the kernel shows the files behind loop devices to everybody,
   * and who knows the id of a sandbox can reach its ports.
   */
  static newName(): string {
    return `d${Buffer.from(crypto.getRandomValues(new Uint8Array(10))).toString("hex")}`;
  }

  /** Makes a disk and mounts the root of its sandbox below `folder`. */
  async attach(name: string, sizeMB: number, imageFolder: string, folder: string): Promise<Disk> {
    this.demandSpace(0);
    await this.#clone(await this.#prototype(sizeMB), this.imageOf(name));
    return await this.#mount(name, imageFolder, folder, (disk) => writeIdentity(join(disk, "upper/etc")));
  }

  /** The same with a copy of the disk in the file `source`. */
  async attachCopy(name: string, source: string, imageFolder: string, folder: string): Promise<Disk> {
    this.demandSpace(0);
    await this.#clone(source, this.imageOf(name));
    return await this.#mount(name, imageFolder, folder, () => undefined);
  }

  /** A folder on the same filesystem, so that disks are cloned between the two without copying. */
  get checkpointsFolder(): string {
    return join(this.#pool, "checkpoints");
  }

  async #mount(name: string, imageFolder: string, folder: string, fill: (disk: string) => void): Promise<Disk> {
    const disk = join(folder, "disk");
    const root = join(folder, "root");
    mkdirSync(disk, { mode: 0o711 });
    mkdirSync(root, { mode: 0o711 });
    await this.mounts.do({ kind: "loop", image: this.imageOf(name), target: disk, type: "ext4", options: EXT4_MOUNT });
    fill(disk);
    const layers = `lowerdir=${imageFolder},upperdir=${disk}/upper,workdir=${disk}/work`;
    // index and nfs_export: without them a process with an inotify watch cannot be checkpointed. redirect_dir: without it a
    // folder of the image cannot be renamed.
    await this.mounts.do({
      kind: "overlay",
      target: root,
      options: `${layers},index=on,nfs_export=on,redirect_dir=on`,
    });
    return { root, release: () => this.releaseMounts(folder) };
  }

  /** Takes whatever is still mounted below a sandbox's folder out of the host's view. */
  async releaseMounts(folder: string): Promise<void> {
    const below = mountPoints().filter((path) => path.startsWith(`${folder}/`));
    for (const target of below.reverse()) await this.mounts.do({ kind: "detach", target });
    for (const name of ["root", "disk"]) await rm(join(folder, name), { recursive: true, force: true });
  }

  async remove(name: string): Promise<void> {
    await rm(this.imageOf(name), { force: true });
  }

  /** Names of all disks. */
  async list(): Promise<string[]> {
    return (await readdir(this.#pool))
      .filter((name) => /^d[0-9a-f]+\.img$/.test(name))
      .map((name) => name.slice(0, -4));
  }

  imageOf(name: string): string {
    return join(this.#pool, `${name}.img`);
  }

  /** Fault 503 when `bytes` more would leave less than the running sandboxes may need. */
  demandSpace(bytes: number): void {
    // A pool in a file is as full as the filesystem under that file, too.
    for (const folder of [this.#pool, join(this.#pool, "..")]) {
      const { bavail, bsize } = statfsSync(folder);
      if (bavail * bsize >= FREE_MIN_BYTES + bytes) continue;
      throw new Fault(
        503,
        `only ${Math.floor((bavail * bsize) / 1024 ** 2)} MiB are free on the disk for sandboxes, ` +
          `${FREE_MIN_BYTES / 1024 ** 2} MiB are kept for the running ones`,
      );
    }
  }

  async #clone(source: string, target: string): Promise<void> {
    if (this.reflink && (await this.mounts.do({ kind: "reflink", source, target }))) return;
    await rm(target, { force: true });
    await run(["cp", "--sparse=always", source, target]);
  }

  #prototype(sizeMB: number): Promise<string> {
    let prototype = this.#prototypes.get(sizeMB);
    if (prototype === undefined) {
      prototype = this.#makePrototype(sizeMB);
      prototype.catch(() => this.#prototypes.delete(sizeMB));
      this.#prototypes.set(sizeMB, prototype);
    }
    return prototype;
  }

  async #makePrototype(sizeMB: number): Promise<string> {
    const path = join(this.#pool, `prototype-${sizeMB}.ext4`);
    if (existsSync(path)) return path;
    const unfinished = `${path}.unfinished`;
    await makeSparse(unfinished, sizeMB * 1024 * 1024);
    await run([
      "mkfs.ext4",
      "-q",
      "-F",
      "-m",
      "0",
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
      chownSync(join(folder, "upper"), HOST_ID_FIRST, HOST_ID_FIRST);
    } finally {
      // A plain umount: when it returns, everything is in the file.
      await run(["umount", folder]);
    }
    await rmdir(folder);
    await rename(unfinished, path);
    return path;
  }
}

/** Files that must differ between sandboxes, or fit our network whatever the image says. The disk is fresh and ours. */
function writeIdentity(etc: string): void {
  const machineId = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
  const files: Record<string, string> = {
    "machine-id": `${machineId}\n`,
    "resolv.conf": `nameserver ${NAMESERVER_ADDRESS}\n`,
    hostname: `${HOSTNAME}\n`,
    hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${SANDBOX_ADDRESS} ${HOSTNAME}\n`,
  };
  mkdirSync(etc, { mode: 0o755 });
  chownSync(etc, HOST_ID_FIRST, HOST_ID_FIRST);
  for (const [name, content] of Object.entries(files)) {
    const path = join(etc, name);
    writeFileSync(path, content, { mode: 0o644 });
    chownSync(path, HOST_ID_FIRST, HOST_ID_FIRST);
  }
}

async function canReflink(folder: string, mounts: Mounts): Promise<boolean> {
  // Known without trying, which takes space: a server must also start, and be torn down, where there is none left.
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

/** A btrfs in a file, for data folders on filesystems that cannot share blocks. Sparse: it takes what sandboxes write. */
async function mountPool(dataFolder: string, target: string, mounts: Mounts): Promise<void> {
  const file = join(dataFolder, "disks.btrfs");
  if (!existsSync(file)) {
    const { bavail, bsize } = statfsSync(dataFolder);
    const unfinished = `${file}.unfinished`;
    await makeSparse(unfinished, Math.max(POOL_MIN_BYTES, Math.floor((bavail * bsize) / 1024 ** 3) * 1024 ** 3));
    await run(["mkfs.btrfs", "--quiet", "--force", "--metadata", "single", unfinished]);
    await rename(unfinished, file);
  }
  const options = "discard=async";
  const device = loopDeviceOf(file);
  if (device !== undefined) {
    // Still in use by sandboxes whose server lost its mount namespace: a second device on the same file would tear it apart.
    await mounts.do({ kind: "device", device, target, type: "btrfs", options });
    return;
  }
  await mounts.do({ kind: "loop", image: file, target, type: "btrfs", options });
}

/** After an error the kernel lets a filesystem be read only, until it is mounted anew. */
export function isPoolBroken(dataFolder: string): boolean {
  const pool = join(dataFolder, "disks");
  if (!mountPoints().includes(pool)) return false;
  const probe = join(pool, ".writable");
  try {
    writeFileSync(probe, "");
    return false;
  } catch (error) {
    return ["EROFS", "EIO"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}

/** Nothing may run on it any more. Resolves when it can be mounted anew. */
export async function releasePool(dataFolder: string): Promise<void> {
  await run(["umount", "--lazy", join(dataFolder, "disks")]);
  const deadline = performance.now() + POOL_RELEASE_MS;
  while (loopDeviceOf(join(dataFolder, "disks.btrfs")) !== undefined && performance.now() < deadline) {
    await Bun.sleep(POOL_LOOK_EVERY_MS);
  }
}

function loopDeviceOf(file: string): string | undefined {
  for (const name of readdirSync("/sys/block")) {
    const backing = `/sys/block/${name}/loop/backing_file`;
    if (existsSync(backing) && readFileSync(backing, "utf8").trim() === file) return `/dev/${name}`;
  }
  return undefined;
}

/** As a part of the kernel, or as a module that can be loaded. */
async function hasBtrfs(): Promise<boolean> {
  const listed = () => /\bbtrfs$/m.test(readFileSync("/proc/filesystems", "utf8"));
  if (!listed() && Bun.which("modprobe") !== null) await attempt(["modprobe", "btrfs"]);
  return listed();
}

async function makeSparse(path: string, bytes: number): Promise<void> {
  const file = await open(path, "w", 0o600);
  await file.truncate(bytes);
  await file.close();
}
