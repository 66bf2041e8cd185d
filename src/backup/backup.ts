/**
 * Backs up a server that may be serving meanwhile. It runs in a mount namespace of its own, made from the server's, so
 * its mounts end with it. Nothing that it reads changes or disappears:
 *
 *   store        a copy of one moment
 *   checkpoints  never change; hard links keep their files while the server removes its own
 *   images       never change; the server removes none while the lock is held
 *   volumes      are read file by file while sandboxes write
 *
 * The module src/backup copies the data of a server to a repository and back. It never serves requests and never starts
 * or stops a sandbox.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { MIB } from "../contract/limit.ts";
import { cachedStack, imagesMarkedBy } from "../images/cached-images.ts";
import { Disks } from "../images/disk/disks.ts";
import { guestsMarkedBy } from "../images/guest-folders.ts";
import { cloneWithAllNames } from "../images/image-copy.ts";
import { belowFile } from "../images/image-folder.ts";
import { Images } from "../images/images.ts";
import { checkpointFolder } from "../sandbox/checkpoint/checkpoint-folder.ts";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import { checkImage, mountImage, TREE, volumeImage } from "../sandbox/volume/volume-image.ts";
import { copyStore } from "../store/copy.ts";
import { attempt, run } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { isMountPoint } from "../system/mount/mount-namespace.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { unmount } from "../system/mount/unmount.ts";
import { Toolbox } from "../system/toolbox.ts";
import {
  BACKUP,
  CONTENTS,
  type Contents,
  digestOf,
  FETCHED_NOTES,
  groupTag,
  KEPT_FILES,
  newContents,
  olderThan,
  PART_TAG,
  STAGING_MOUNT,
  STORE,
} from "./contents.ts";
import { packDisk } from "./packed-disk.ts";
import { inMiB, type Repository, type Saved, Unreadable } from "./repository.ts";
import { readFault, saveTree, tarFailed } from "./tree.ts";

/** How long a backup waits for the lock, which the server holds while it removes images. */
const LOCK_WAIT_MS = scaled(120_000);
const LOCK_RETRY_MS = 200;
const DAY_MS = 24 * 3_600_000;
const REASON_SHOWN_CHARS = 300;

interface BackupSource {
  data: DataFolder;
  cacheFolder: string;
  /** Version of this program. */
  program: string;
}

interface BackupOptions {
  /** Whether a repository that does not exist is made. */
  init: boolean;
  /** Backups older than this are removed after a complete one. */
  keepDays?: number | undefined;
  lockWaitMs?: number;
}

/** Returns false if something is missing in the backup; the rest can be restored. */
export async function backUp(
  server: BackupSource,
  repository: Repository,
  { init, keepDays, lockWaitMs = LOCK_WAIT_MS }: BackupOptions,
  say: (line: string) => void,
): Promise<boolean> {
  using _lock = await lockOf(server.data, lockWaitMs);
  using stack = new DisposableStack();
  const mounts = stack.adopt(new Mounts(), (each) => each.close());
  if (!init) await repository.require();
  else if (await repository.make()) say(`sandlot: made a new repository at ${repository.target}`);
  const backup = new Backup(server, repository, mounts, await Disks.open(server.data.path, mounts));
  try {
    if (!(await backup.make(say))) return false;
  } finally {
    await backup.remove();
  }
  if (keepDays !== undefined) {
    const old = olderThan(Date.now() - keepDays * DAY_MS, await repository.list());
    await repository.forget(old);
    if (old.length > 0) say(`sandlot: removed ${old.length} snapshots of backups older than ${keepDays} days`);
  }
  return true;
}

async function lockOf(data: DataFolder, waitMs: number): Promise<Disposable> {
  for (const until = performance.now() + waitMs; performance.now() < until; await Bun.sleep(LOCK_RETRY_MS)) {
    const lock = data.lockImages();
    if (lock !== undefined) return lock;
  }
  throw new Fault(
    409,
    `another backup of ${data.path} is running, or the server removes images. FIX: wait for the end, then try again`,
  );
}

class Backup {
  readonly #draft: string;
  readonly #checkpoints: Checkpoints;
  readonly #images: Images;
  readonly #group = groupTag();
  readonly #missing: Contents["missing"] = [];
  #sentBytes = 0;

  constructor(
    private readonly server: BackupSource,
    private readonly repository: Repository,
    private readonly mounts: Mounts,
    private readonly disks: Disks,
  ) {
    this.#draft = disks.backupFolder;
    this.#checkpoints = new Checkpoints(disks.checkpointsFolder);
    this.#images = Images.reading(server.cacheFolder, disks);
  }

  /** Returns false if something is missing. */
  async make(say: (line: string) => void): Promise<boolean> {
    await this.remove();
    mkdirSync(join(this.#draft, "checkpoints"), { recursive: true, mode: 0o700 });
    const { data } = this.server;
    // Linked before the copy and again after it: only a pause that begins and ends between the two is missed.
    await this.#linkCheckpoints();
    const storeVersion = copyStore(data.storeFile, join(this.#draft, STORE));
    for (const [name, reason] of await this.#linkCheckpoints()) this.#miss(`checkpoint ${name}`, reason);
    await this.#packDisks();
    const kept = KEPT_FILES.map((name) => join(data.path, name)).filter((path) => existsSync(path));
    await run(["cp", "--archive", "--", ...kept, this.#draft]);
    mkdirSync(STAGING_MOUNT, { recursive: true, mode: 0o700 });
    await run(["mount", "--bind", this.#draft, STAGING_MOUNT]);
    const cached = await this.#showCached();
    const images = await this.#saveImages();
    this.#copyFetchedNotes();
    const volumes = await this.#saveVolumes(say);
    const { program, cacheFolder } = this.server;
    const createdAt = new Date().toISOString();
    rmSync(this.#tarCode, { force: true });
    const main = await this.#saveMain();
    const missing = this.#missing;
    const facts = { program, storeVersion, createdAt, cacheFolder };
    const file = join(this.#draft, CONTENTS);
    writeFileSync(file, JSON.stringify(newContents({ ...facts, main, cached, images, volumes, missing })), {
      mode: 0o600,
    });
    const saved = this.#count(await this.repository.saveOutput(CONTENTS, ["cat", file], [BACKUP, this.#group]));
    const held = readdirSync(join(this.#draft, "checkpoints")).length;
    say(
      `sandlot: backup ${saved.id.slice(0, 8)} has ${held} checkpoints, ${this.#images.names().length} images and ` +
        `${Object.keys(volumes).length} volumes; ${inMiB(this.#sentBytes)} were sent to ${this.repository.target}`,
    );
    for (const { name, reason } of missing) say(`sandlot: ${name} is missing in this backup: ${reason}`);
    return missing.length === 0;
  }

  async remove(): Promise<void> {
    if (isMountPoint(STAGING_MOUNT)) await run(["umount", "--recursive", STAGING_MOUNT]);
    await run(["rm", "--recursive", "--force", "--one-file-system", "--", this.#draft], { timeoutMs: null });
  }

  /** One tenant's data that cannot be read must not stop the backup of all others. */
  #miss(name: string, cause: unknown): void {
    const all = [cause, cause instanceof Error ? cause.cause : undefined].filter((each) => each !== undefined);
    this.#missing.push({
      name,
      reason: all
        .map(String)
        .join(": ")
        .replace(/\p{Cc}/gu, " ")
        .slice(-REASON_SHOWN_CHARS),
    });
  }

  /** Returns those that cannot be linked, with the reason. */
  async #linkCheckpoints(): Promise<[name: string, reason: string][]> {
    const failures: [string, string][] = [];
    for (const name of await this.#checkpoints.list()) {
      const target = join(this.#draft, "checkpoints", name);
      const reason = existsSync(target) ? undefined : await this.#link(name, target);
      if (reason !== undefined) failures.push([name, reason]);
    }
    return failures;
  }

  async #packDisks(): Promise<void> {
    for (const name of readdirSync(join(this.#draft, "checkpoints"))) {
      const folder = join(this.#draft, "checkpoints", name);
      try {
        await this.#packDisk(folder);
      } catch (cause) {
        this.#miss(`checkpoint ${name}`, cause);
        rmSync(folder, { recursive: true, force: true });
      }
    }
  }

  /** Returns the reason of a failure; undefined if the checkpoint disappeared: its sandbox was resumed or deleted. */
  async #link(name: string, target: string): Promise<string | undefined> {
    const linked = join(this.#draft, "linked");
    const { exitCode, stderr } = await attempt(
      ["cp", "--archive", "--link", "--no-target-directory", this.#checkpoints.folderOf(name).path, linked],
      { timeoutMs: null },
    );
    if (exitCode === 0 && existsSync(checkpointFolder(linked).manifest)) {
      renameSync(linked, target);
      return undefined;
    }
    rmSync(linked, { recursive: true, force: true });
    return this.#checkpoints.has(name) ? `it cannot be linked: ${stderr.trim()}` : undefined;
  }

  async #packDisk(folder: string): Promise<void> {
    const { disk, manifest } = checkpointFolder(folder);
    const scratch = join(this.#draft, "scratch");
    mkdirSync(scratch, { mode: 0o700 });
    try {
      const { kind } = JSON.parse(await Bun.file(manifest).text()) as { kind: { image: string } };
      const clone = join(scratch, "disk.img");
      const lowers = this.#images.lowersOf(kind.image);
      const isWritten = await cloneWithAllNames(this.disks, disk, clone, lowers, scratch);
      packDisk(isWritten ? clone : disk, `${disk}.packed`);
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
    rmSync(disk);
  }

  /** Leaves out checkpoints that restic cannot read. */
  async #saveMain(): Promise<string> {
    try {
      return this.#count(await this.repository.save(STAGING_MOUNT, [PART_TAG, this.#group])).id;
    } catch (cause) {
      const names = cause instanceof Unreadable ? cause.paths.map(checkpointOf) : [];
      if (names.length === 0 || names.includes(undefined)) throw cause;
      for (const name of new Set(names)) {
        this.#miss(`checkpoint ${name}`, cause);
        rmSync(join(this.#draft, "checkpoints", name ?? ""), { recursive: true, force: true });
      }
    }
    return await this.#saveMain();
  }

  /** Shows the folders of the cache that this server needs, and returns their digests. */
  async #showCached(): Promise<Record<string, string>> {
    const { cacheFolder, data } = this.server;
    const toolbox = new Toolbox(cacheFolder);
    const images = new Set(imagesMarkedBy(cacheFolder, data.tag).flatMap((name) => cachedStack(cacheFolder, name)));
    const tools = [toolbox.toolFolder, toolbox.runscFolder].filter(existsSync);
    const paths = [
      [...images].map((name) => `images/${name}`),
      guestsMarkedBy(cacheFolder, data.tag).map((name) => `guests/${name}`),
      tools.map((folder) => folder.slice(cacheFolder.length + 1)),
    ].flat();
    const cached: Contents["cached"] = {};
    for (const path of paths.sort()) {
      const [source, target] = [join(cacheFolder, path), join(STAGING_MOUNT, "cache", path)];
      mkdirSync(target, { recursive: true });
      await run(["mount", "--bind", "--options=ro", source, target]);
      const digest = await digestOf(source);
      if (digest === undefined) throw new Fault(500, `${source} cannot be read`);
      cached[path] = digest;
    }
    for (const name of images) {
      const below = belowFile(cacheFolder, name);
      if (existsSync(below)) copyFileSync(below, belowFile(join(STAGING_MOUNT, "cache"), name));
    }
    return cached;
  }

  /** A tenant chose the files of an image, so they pass through tar, which reads no holes and takes any depth. */
  async #saveImages(): Promise<string | null> {
    const names = this.#images.names().sort();
    try {
      return await this.#saveImagesNamed(names);
    } catch (cause) {
      if (!tarFailed(this.#tarCode)) throw cause;
    }
    return await this.#saveImagesNamed(await this.#readable(names));
  }

  async #saveImagesNamed(names: readonly string[]): Promise<string | null> {
    return names.length === 0 ? null : (await this.#saveTree(this.disks.imagesFolder, names)).id;
  }

  /** Tries each image by itself, and notes those that tar cannot read. */
  async #readable(names: readonly string[]): Promise<string[]> {
    const readable: string[] = [];
    for (const name of names) {
      const fault = await readFault(this.disks.imagesFolder, name);
      if (fault === undefined) readable.push(name);
      else this.#miss(`image ${name}`, fault);
    }
    return readable;
  }

  /** Without its note a fetched image cannot be used. While the lock is held, neither is removed. */
  #copyFetchedNotes(): void {
    const target = join(this.#draft, FETCHED_NOTES);
    mkdirSync(target, { mode: 0o700 });
    for (const name of this.#images.names()) {
      const note = join(this.server.data.fetchedNotesFolder, `${name}.json`);
      if (existsSync(note)) copyFileSync(note, join(target, basename(note)));
    }
  }

  async #saveVolumes(say: (line: string) => void): Promise<Contents["volumes"]> {
    const folder = this.server.data.volumesFolder;
    const volumes: Contents["volumes"] = {};
    const target = join(dirname(STAGING_MOUNT), "backup-volume");
    mkdirSync(target, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder).filter((each) => !each.startsWith("."))) {
      const image = volumeImage(join(folder, name));
      try {
        await checkImage(image);
        await mountImage(image, target, this.mounts);
      } catch (cause) {
        if (existsSync(image)) this.#miss(`volume ${name}`, cause);
        else say(`sandlot: volume ${name} was deleted meanwhile`);
        continue;
      }
      try {
        const sizeMB = Math.ceil(statSync(image).size / MIB);
        volumes[name] = { sizeMB, snapshot: (await this.#saveTree(target, [TREE])).id };
      } catch (cause) {
        if (!tarFailed(this.#tarCode)) throw cause;
        this.#miss(`volume ${name}`, cause);
      } finally {
        await unmount(target);
      }
    }
    return volumes;
  }

  async #saveTree(folder: string, names: readonly string[]): Promise<Saved> {
    const tags = [PART_TAG, this.#group];
    return this.#count(await saveTree(this.repository, { folder, names }, { tags, codeFile: this.#tarCode }));
  }

  get #tarCode(): string {
    return join(this.#draft, "tar-code");
  }

  #count(saved: Saved): Saved {
    this.#sentBytes += saved.sentBytes;
    return saved;
  }
}

/** The name of the checkpoint with this file below STAGING_MOUNT. */
function checkpointOf(path: string): string | undefined {
  const [folder, name] = path.slice(STAGING_MOUNT.length + 1).split("/");
  return folder === "checkpoints" ? name : undefined;
}
