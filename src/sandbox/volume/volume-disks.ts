/**
 * Volumes: filesystems that outlive sandboxes and that several sandboxes can mount at once. This folder never decides
 * which tenant may use a volume.
 *
 * Each volume is a folder below `volumes` in the data folder, with one image and its facts. The server mounts it at
 * most once, in its own mount namespace, when a starting sandbox or a content call needs it. Sandboxes get bind mounts
 * and then hold the filesystem themselves, so the server unmounts its own mount when idle. After a kill, the next
 * server finds the mount by its name.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock, type Timer } from "../../base/clock.ts";
import { errorMessage } from "../../base/error-message.ts";
import { described, stderrLog } from "../../base/log.ts";
import { KeyedQueue } from "../../base/serial-queue.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { DISK_FREE_MIN_BYTES } from "../../images/disk/disks.ts";
import { attempt } from "../../system/command.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { mountPoints } from "../../system/mount/mount-namespace.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { syncPath } from "../../system/sync-path.ts";
import { checkImage, makeImage, makeTree, mountImage, TREE, volumeFacts, volumeImage } from "./volume-image.ts";

const VOLUME_SYNC_MS = scaled(300_000);
/** How long the server's own mount of a volume stays without use. */
const VOLUME_IDLE_MS = 30_000;
/** Tries and delay for mounting a volume whose last user is just detaching it. */
const VOLUME_MOUNT_TRIES_MAX = 40;
const VOLUME_MOUNT_RETRY_MS = 50;

/** Prefix of a folder that is being made or removed. */
const UNFINISHED = ".unfinished-";
const FORMAT = 1;

interface Facts {
  format: typeof FORMAT;
}

/** Content of the file beside a volume's image. */
export const VOLUME_FACTS: Facts = { format: FORMAT };

/** While held, the volume is mounted at `path`. */
export interface HeldVolume extends Disposable {
  name: string;
  path: string;
}

interface Use {
  holders: number;
  idle: Timer | undefined;
}

export class Volumes {
  readonly #folder: string;
  readonly #mountFolder: string;
  readonly #turns = new KeyedQueue();
  /** Volumes that are mounted or about to be. */
  readonly #uses = new Map<string, Use>();
  #closed = false;

  private constructor(
    data: DataFolder,
    private readonly mounts: Mounts,
    private readonly clock: Pick<Clock, "after">,
  ) {
    this.#folder = data.volumesFolder;
    this.#mountFolder = join(data.runFolder, "volumes");
  }

  static async open(data: DataFolder, mounts: Mounts, clock: Pick<Clock, "after"> = systemClock): Promise<Volumes> {
    const volumes = new Volumes(data, mounts, clock);
    mkdirSync(volumes.#folder, { recursive: true, mode: 0o700 });
    chmodSync(volumes.#folder, 0o700);
    // The mapped root of a sandbox may pass through this folder, but not list it.
    mkdirSync(volumes.#mountFolder, { recursive: true, mode: 0o711 });
    for (const name of readdirSync(volumes.#folder)) {
      if (name.startsWith(UNFINISHED)) await volumes.#sweep(name.slice(UNFINISHED.length));
    }
    for (const name of volumes.#mounted()) volumes.#releaseLater(name, volumes.#useOf(name));
    return volumes;
  }

  /** Idempotent. Resolves when the volume is durable. Throws Fault 507 when the machine has no room. */
  async create(name: string, sizeMB: number): Promise<void> {
    await this.#turns.run(requireName(name), async () => {
      if (existsSync(this.#imageOf(name))) return;
      this.#requireSpace();
      await this.#sweep(name);
      const draft = join(this.#folder, UNFINISHED + name);
      mkdirSync(draft, { mode: 0o700 });
      try {
        const image = volumeImage(draft);
        await makeImage(image, sizeMB);
        await this.#fill(name, image);
        writeFileSync(volumeFacts(draft), JSON.stringify(VOLUME_FACTS), { mode: 0o600 });
        await syncPath(volumeFacts(draft));
        await syncPath(draft);
        renameSync(draft, join(this.#folder, name));
        await syncPath(this.#folder);
      } catch (cause) {
        await this.#sweep(name);
        throw roomFault(cause);
      }
    });
  }

  /** Idempotent. The caller makes sure that no sandbox has it, and ends content calls on it. */
  async remove(name: string): Promise<void> {
    await this.#turns.run(requireName(name), async () => {
      const use = this.#uses.get(name);
      if (use !== undefined && use.holders > 0) throw new Fault(409, `volume "${name}" is being used`);
      await this.#detach(name);
      const folder = join(this.#folder, name);
      await this.#sweep(name);
      // A partly removed folder must not look like a volume.
      if (existsSync(folder)) renameSync(folder, join(this.#folder, UNFINISHED + name));
      await this.#sweep(name);
    });
  }

  /** Throws Fault 404 when there is no such volume. */
  async hold(name: string): Promise<HeldVolume> {
    if (this.#closed) throw new Fault(503, "the server is stopping");
    const use = this.#useOf(requireName(name));
    use.idle?.cancel();
    use.holders++;
    using release = new DisposableStack();
    release.defer(() => {
      use.holders--;
      this.#releaseLater(name, use);
    });
    await this.#turns.run(name, () => this.#mount(name));
    const held = release.move();
    return { name, path: join(this.#mountOf(name), TREE), [Symbol.dispose]: () => held.dispose() };
  }

  /** Makes all writes to the volume so far durable, whichever process made them. */
  async sync(name: string): Promise<void> {
    using held = await this.hold(name);
    await syncFilesystem(held.path);
  }

  /** Unmounts all volumes here. Sandboxes keep their own mounts. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { idle } of this.#uses.values()) idle?.cancel();
    await this.#turns.settled();
    for (const name of this.#mounted()) await this.#turns.run(name, () => this.#detach(name));
  }

  async #mount(name: string): Promise<void> {
    const target = this.#mountOf(name);
    if (mountPoints().includes(target)) return;
    const image = this.#imageOf(name);
    if (!existsSync(image)) throw new Fault(404, `there is no volume "${name}" on this machine`);
    this.#requireReadable(name);
    await this.#attach(image, target);
  }

  async #attach(image: string, target: string): Promise<void> {
    mkdirSync(target, { recursive: true, mode: 0o711 });
    for (let tries = 1; ; tries++) {
      await checkImage(image);
      try {
        return await mountImage(image, target, this.mounts);
      } catch (cause) {
        if (!(cause instanceof Fault) || cause.status !== 503 || tries === VOLUME_MOUNT_TRIES_MAX) throw cause;
        await Bun.sleep(VOLUME_MOUNT_RETRY_MS);
      }
    }
  }

  /** Makes the tree in a new filesystem and unmounts it again. */
  async #fill(name: string, image: string): Promise<void> {
    const target = join(this.#mountFolder, UNFINISHED + name);
    await this.#attach(image, target);
    try {
      await makeTree(join(target, TREE));
      await syncFilesystem(target);
    } finally {
      await this.#unmount(target);
    }
  }

  async #detach(name: string): Promise<void> {
    const target = this.#mountOf(name);
    if (mountPoints().includes(target)) {
      // Synced first, and not on the single mount thread: there may be much to write, and sandboxes wait for that
      // thread.
      await syncFilesystem(target).catch((error: unknown) => logFailure("a volume could not be synced", name, error));
      await this.#unmount(target);
    }
    // A new holder may have mounted it again meanwhile.
    if (this.#uses.get(name)?.holders === 0) this.#uses.delete(name);
  }

  async #unmount(target: string): Promise<void> {
    if (mountPoints().includes(target)) await this.mounts.do({ kind: "detach", target });
    // rmdir fails unless the folder is empty, so it cannot delete content that is still mounted.
    if (existsSync(target)) await rmdir(target);
  }

  /** Removes what is left of an unfinished volume. */
  async #sweep(name: string): Promise<void> {
    await this.#unmount(join(this.#mountFolder, UNFINISHED + name));
    await rm(join(this.#folder, UNFINISHED + name), { recursive: true, force: true });
  }

  #useOf(name: string): Use {
    const use = this.#uses.get(name) ?? { holders: 0, idle: undefined };
    this.#uses.set(name, use);
    return use;
  }

  #releaseLater(name: string, use: Use): void {
    if (use.holders > 0 || this.#closed) return;
    use.idle?.cancel();
    use.idle = this.clock.after(VOLUME_IDLE_MS, () => {
      const release = this.#turns.run(name, async () => {
        if (use.holders === 0 && this.#uses.get(name) === use) await this.#detach(name);
      });
      release.catch((error: unknown) => logFailure("a volume could not be unmounted", name, error));
    });
  }

  #mounted(): string[] {
    const prefix = `${this.#mountFolder}/`;
    return mountPoints()
      .filter((path) => path.startsWith(prefix))
      .map((path) => path.slice(prefix.length))
      .filter((name) => !name.startsWith(UNFINISHED));
  }

  #requireReadable(name: string): void {
    const { format } = JSON.parse(readFileSync(volumeFacts(join(this.#folder, name)), "utf8")) as Facts;
    if (format !== FORMAT) throw new Fault(422, `volume "${name}" has format ${format}; this program reads ${FORMAT}`);
  }

  #requireSpace(): void {
    const { bavail, bsize } = statfsSync(this.#folder);
    if (bavail * bsize >= DISK_FREE_MIN_BYTES) return;
    throw new Fault(507, `only ${Math.floor((bavail * bsize) / 1024 ** 2)} MiB are free on the disk for volumes`);
  }

  #imageOf(name: string): string {
    return volumeImage(join(this.#folder, name));
  }

  #mountOf(name: string): string {
    return join(this.#mountFolder, name);
  }
}

function logFailure(event: string, volume: string, error: unknown): void {
  stderrLog.write({ level: "error", event, volume, error: described(error) });
}

async function syncFilesystem(path: string): Promise<void> {
  const { exitCode, stderr } = await attempt(["sync", "--file-system", path], { timeoutMs: VOLUME_SYNC_MS });
  if (exitCode !== 0) throw new Fault(500, `a volume could not be written to the disk: ${stderr.trim()}`);
}

function roomFault(cause: unknown): Fault {
  const message = errorMessage(cause);
  if (!/ENOSPC|no space left/i.test(message)) return Fault.from(cause);
  return new Fault(507, "the disk has no space for a new volume", { cause });
}

function requireName(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(name)) throw new Fault(500, `${JSON.stringify(name)} cannot name a volume`);
  return name;
}
