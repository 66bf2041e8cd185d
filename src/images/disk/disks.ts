/**
 * Disks of sandboxes: one ext4 image of fixed size each, cloned from a formatted prototype. The image holds the upper
 * layer of an overlay over the shared, read-only image layers. So `df` inside shows the sandbox's own size, and a full
 * disk is ENOSPC for that sandbox alone.
 *
 * The host mounts a disk only briefly: it mounts the disk, the sandbox starts on it, and the host detaches it again.
 * From then on only the sandbox's own mount namespace holds it, so the end of the sandbox frees the disk and its loop
 * device.
 */
import { mkdirSync, statfsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { described, stderrLog } from "../../base/log.ts";
import { randomHex } from "../../base/random-hex.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { run } from "../../system/command.ts";
import { HOST_ID_FIRST, ID_COUNT, type IdRange, SHARED_IDS } from "../../system/id-range.ts";
import type { EtcFiles, Lower, MountJob } from "../../system/mount/mount-job.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { identityFiles } from "./disk-identity.ts";
import { type DiskPool, openDiskPool } from "./disk-pool.ts";
import { EXT4_MOUNT, Prototypes } from "./prototypes.ts";

/** With less free space than this, no new sandbox is made, because the running ones need it. */
export const DISK_FREE_MIN_BYTES = 1024 ** 3;
/** When a disk to be cloned has more unwritten bytes than this, they are written first. */
const UNWRITTEN_MAX_BYTES = 8 * 1024 * 1024;

/** Size of the disk for the test whether owners can be mapped. */
const MAPPING_TRIAL_MB = 8;

const DISK_NAME_BYTES = 10;
/** A disk of several GiB, where blocks cannot be shared. */
const DISK_COPY_MS = scaled(300_000);

/** Mount points of the root and the disk, below the folder of a sandbox. */
const PLACES = ["root", "disk"] as const;

interface Disk {
  /** The root filesystem of the sandbox, mounted in this process's view until `release`. */
  root: string;
  /** Detaches its mounts from the host's view, and others below the folder: all, or only these. */
  release(others?: readonly string[]): Promise<void>;
}

/** The image of a disk, the first id that its owners are mapped to, and files for a new disk. */
interface DiskFile {
  image: string;
  firstId: number | undefined;
  etc?: EtcFiles;
}

export class Disks {
  readonly #pool: string;
  readonly #prototypes: Prototypes;
  /** Disk throughput limit of each sandbox, in each direction; undefined: no limit. */
  bytesPerSecond: number | undefined;
  /** Whether copies share blocks. */
  readonly reflink: boolean;
  /** Whether owners can be mapped here. If so, they are stored plain on new disks. */
  #canMap = false;

  private constructor(
    readonly mounts: Mounts,
    { folder, reflink }: DiskPool,
  ) {
    this.#pool = folder;
    this.#prototypes = new Prototypes(folder, mounts);
    this.reflink = reflink;
  }

  /** Without `mapIds`, new disks are as on a machine that cannot map ids. */
  static async open(dataFolder: string, mounts: Mounts, mapIds = true): Promise<Disks> {
    const disks = new Disks(mounts, await openDiskPool(dataFolder, mounts));
    if (mapIds) disks.#canMap = await disks.#tryToMap();
    return disks;
  }

  /** Whether sandboxes over this folder with shifted owners can have any range of ids. Never throws. */
  async canMap(layer: string): Promise<boolean> {
    return this.#canMap && (await this.#tryToMap([{ folder: layer, ids: "shifted" }]));
  }

  /**
   * A random name for a new disk, unrelated to its sandbox: the kernel shows the files behind loop devices to every
   * process, and a sandbox id is enough to reach the sandbox's ports.
   */
  static newName(): string {
    return `d${randomHex(DISK_NAME_BYTES)}`;
  }

  /** The mount point of the root of the sandbox with this folder. */
  static rootIn(folder: string): string {
    return join(folder, "root");
  }

  /** Makes a disk and mounts the root of its sandbox below `folder`, with additional mounts. */
  async attach(
    name: string,
    sizeMB: number,
    lowers: readonly Lower[],
    folder: string,
    ids: IdRange,
    extraMounts: readonly MountJob[] = [],
  ): Promise<Disk> {
    this.requireSpace(0);
    const source = await this.#prototypes.of(sizeMB, this.#canMap ? "plain" : "shifted");
    const etc = { owner: ids.first, files: identityFiles() };
    const fresh = { image: this.imageOf(name), firstId: this.#firstId(ids), etc };
    return await this.#mountCopy(source, fresh, lowers, folder, extraMounts);
  }

  /** Like `attach`, with a copy of the disk in the file `source`. */
  async attachCopy(
    name: string,
    source: string,
    lowers: readonly Lower[],
    folder: string,
    ids: IdRange,
    extraMounts: readonly MountJob[] = [],
  ): Promise<Disk> {
    this.requireSpace(0);
    const copy = { image: this.imageOf(name), firstId: this.#firstId(ids) };
    return await this.#mountCopy(source, copy, lowers, folder, extraMounts);
  }

  /** Mounts below `folder` the root that a sandbox with the disk in the file `image` would have. */
  async view(image: string, lowers: readonly Lower[], folder: string, ids: IdRange = SHARED_IDS): Promise<Disk> {
    makePlaces(folder);
    return await this.#mount({ image, firstId: this.#firstId(ids) }, lowers, folder);
  }

  /** A folder on the same filesystem, so that disks are cloned between the two without copying. */
  get checkpointsFolder(): string {
    return join(this.#pool, "checkpoints");
  }

  /** What a backup reads: links to checkpoints that the server may remove meanwhile. */
  get backupFolder(): string {
    return join(this.#pool, "backup");
  }

  /** Sandboxes on their way from or to another machine. */
  get transferFolder(): string {
    return join(this.#pool, "transfer");
  }

  /** Finished builds, on the same filesystem, whose free space is checked here. */
  get imagesFolder(): string {
    return join(this.#pool, "images");
  }

  /** Layers and results of builds, on the same filesystem. */
  get layersFolder(): string {
    return join(this.#pool, "layers");
  }

  get resultsFolder(): string {
    return join(this.#pool, "results");
  }

  #firstId({ first }: IdRange): number | undefined {
    return this.#canMap ? first : undefined;
  }

  /** Mounts a new disk that starts as a copy of the one in the file `source`. */
  async #mountCopy(
    source: string,
    copy: DiskFile,
    lowers: readonly Lower[],
    folder: string,
    extraMounts: readonly MountJob[],
  ): Promise<Disk> {
    makePlaces(folder);
    if (this.reflink) {
      const jobs = [...jobsFor(copy, lowers, folder), ...extraMounts];
      const [isCloned] = await this.mounts.doAll([{ kind: "reflink", source, target: copy.image }, ...jobs]);
      if (isCloned) return this.#mounted(folder, extraMounts);
    }
    await this.clone(source, copy.image);
    return await this.#mount(copy, lowers, folder, extraMounts);
  }

  async #mount(
    file: DiskFile,
    lowers: readonly Lower[],
    folder: string,
    extraMounts: readonly MountJob[] = [],
  ): Promise<Disk> {
    await this.mounts.doAll([...jobsFor(file, lowers, folder), ...extraMounts]);
    return this.#mounted(folder, extraMounts);
  }

  #mounted(folder: string, extraMounts: readonly MountJob[]): Disk {
    const [root, disk] = placesIn(folder);
    const own = [disk, root, ...extraMounts.flatMap((job) => ("target" in job ? [job.target] : []))];
    const release = (others?: readonly string[]) => this.releaseMounts(folder, others && [...own, ...others]);
    return { root: Disks.rootIn(folder), release };
  }

  /** Tests whether owners can be mapped: mounts a small disk over a folder of the pool and these lowers. */
  async #tryToMap(lowers: readonly Lower[] = []): Promise<boolean> {
    const folder = join(this.#pool, ".mapping");
    const name = Disks.newName();
    try {
      await this.releaseMounts(folder);
      for (const path of [folder, join(folder, "lower")]) mkdirSync(path, { recursive: true, mode: 0o700 });
      await this.clone(await this.#prototypes.of(MAPPING_TRIAL_MB, "plain"), this.imageOf(name));
      const all = [{ folder: join(folder, "lower"), ids: "plain" } as const, ...lowers];
      makePlaces(folder);
      await this.#mount({ image: this.imageOf(name), firstId: HOST_ID_FIRST + ID_COUNT }, all, folder);
      return true;
    } catch (error) {
      const what = lowers.length === 0 ? "owners of files are shifted on new disks" : "all sandboxes share their ids";
      const event = `${what}, because owners could not be mapped`;
      stderrLog.write({ level: "warn", event, error: described(error) });
      return false;
    } finally {
      // On a full disk even the cleanup may fail; the next start retries it.
      await this.releaseMounts(folder)
        .then(() => this.remove(name))
        .then(() => rm(folder, { recursive: true, force: true }))
        .catch(() => undefined);
    }
  }

  async releaseMounts(folder: string, mounted?: readonly string[]): Promise<void> {
    await this.mounts.do({ kind: "release", folder, places: PLACES, mounted });
  }

  async remove(name: string): Promise<void> {
    await rm(this.imageOf(name), { force: true });
  }

  async list(): Promise<string[]> {
    return (await readdir(this.#pool))
      .filter((name) => /^d[0-9a-f]+\.img$/.test(name))
      .map((name) => name.slice(0, -4));
  }

  imageOf(name: string): string {
    return join(this.#pool, `${name}.img`);
  }

  /** Throws Fault 503 when `bytes` more would leave less than the running sandboxes may need. */
  requireSpace(bytes: number): void {
    // For a pool in a file, the filesystem below that file may be full, too.
    for (const folder of [this.#pool, join(this.#pool, "..")]) {
      const { bavail, bsize } = statfsSync(folder);
      if (bavail * bsize >= DISK_FREE_MIN_BYTES + bytes) continue;
      throw new Fault(
        503,
        `only ${Math.floor((bavail * bsize) / 1024 ** 2)} MiB are free on the disk for sandboxes, ` +
          `${DISK_FREE_MIN_BYTES / 1024 ** 2} MiB are kept for the running ones`,
      );
    }
  }

  /**
   * Clones a disk by sharing blocks, unless many of them have to be written first: the clone would wait for that, on a
   * thread that other sandboxes need. False: nothing was done. `flushed` is the root on that disk if it was flushed a
   * moment ago; the few writes since then are synced first.
   */
  async cloneWritten(source: string, target: string, flushed?: string): Promise<boolean> {
    const clone = { kind: "reflink-written", source, target, unwrittenMax: UNWRITTEN_MAX_BYTES } as const;
    const jobs = flushed === undefined ? [clone] : [{ kind: "flush", folder: flushed } as const, clone];
    return (await this.mounts.doAll(jobs)).at(-1) === true;
  }

  /** Copies a disk, by sharing blocks where possible. */
  async clone(source: string, target: string): Promise<void> {
    if (this.reflink && (await this.mounts.do({ kind: "reflink", source, target }))) return;
    await rm(target, { force: true });
    await run(["cp", "--sparse=always", source, target], { timeoutMs: DISK_COPY_MS });
  }
}

function placesIn(folder: string): [root: string, disk: string] {
  const [root, disk] = PLACES;
  return [join(folder, root), join(folder, disk)];
}

function makePlaces(folder: string): void {
  for (const name of PLACES) mkdirSync(join(folder, name), { mode: 0o711 });
}

/** In this order: the overlay's upper layer is on the disk. */
function jobsFor({ image, firstId, etc }: DiskFile, lowers: readonly Lower[], folder: string): MountJob[] {
  const [root, disk] = placesIn(folder);
  const ofDisk = { kind: "disk", image, target: disk, options: EXT4_MOUNT, firstId } as const;
  return [
    etc === undefined ? ofDisk : { ...ofDisk, etc },
    { kind: "overlay", target: root, disk, lowers, folder, firstId },
  ];
}
