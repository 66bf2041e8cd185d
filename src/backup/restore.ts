/** Restores a backup into a new data folder for a server to start on, in a mount namespace of its own. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { cachedImages, noteImage } from "../images/cached-images.ts";
import { Disks } from "../images/disk/disks.ts";
import { removeOverlayOrigin } from "../images/disk/overlay-origin.ts";
import { cachedGuests } from "../images/guest-folders.ts";
import { belowFile } from "../images/image-folder.ts";
import { checkpointFolder } from "../sandbox/checkpoint/checkpoint-folder.ts";
import { withCacheFolder } from "../sandbox/checkpoint/manifest.ts";
import { VOLUME_FACTS } from "../sandbox/volume/volume-disks.ts";
import { makeImage, mountImage, volumeFacts, volumeImage } from "../sandbox/volume/volume-image.ts";
import { STORE_VERSION } from "../store/copy.ts";
import { run } from "../system/command.ts";
import { DataFolder, restoreNote } from "../system/data-folder.ts";
import { requireEnterable } from "../system/enterable-cache.ts";
import { Mounts } from "../system/mount/mounts.ts";
import { unmount } from "../system/mount/unmount.ts";
import {
  CONTENTS,
  type Contents,
  chosenBackup,
  digestOf,
  FETCHED_NOTES,
  KEPT_FILES,
  parseContents,
  requireComplete,
  STAGING_MOUNT,
  STORE,
} from "./contents.ts";
import { unpackDisk } from "./packed-disk.ts";
import type { Repository } from "./repository.ts";
import { endOf, restoreTree } from "./tree.ts";

const SYNC_MS = scaled(600_000);

const MACHINE_ERRORS: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EIO", "EROFS"]);

interface RestoreTarget {
  dataFolder: string;
  cacheFolder: string;
}

/** `id`: another backup than the newest. Returns false if a part could not be restored; the rest is usable. */
export async function restore(
  place: RestoreTarget,
  repository: Repository,
  id: string | undefined,
  say: (line: string) => void,
): Promise<boolean> {
  requireEmpty(place.dataFolder);
  requireEnterable(place.cacheFolder);
  await repository.require();
  const snapshots = await repository.list();
  const found = chosenBackup(snapshots, id, repository.target);
  const contents = parseContents(await repository.text(found.id, CONTENTS), STORE_VERSION);
  requireComplete(contents, snapshots);
  const present = await presentIn(place.cacheFolder, contents);
  // Only now is anything written.
  mkdirSync(place.dataFolder, { recursive: true, mode: 0o700 });
  writeFileSync(restoreNote(place.dataFolder), found.id);
  const data = new DataFolder(place.dataFolder);
  using stack = new DisposableStack();
  const mounts = stack.adopt(new Mounts(), (each) => each.close());
  const disks = await Disks.open(data.path, mounts);
  const work = new Restore(place, repository, contents, mounts, disks);
  await work.restoreMain(present);
  await work.restoreCached(present);
  const failures = contents.missing.map(({ name, reason }) => `${name} is missing in this backup: ${reason}`);
  failures.push(...(await work.restoreCheckpoints()));
  await work.restoreImages();
  failures.push(...(await work.restoreVolumes()));
  await work.finish();
  for (const failure of failures) say(`sandlot: ${failure}`);
  say(
    `sandlot: backup ${found.id.slice(0, 8)} of ${contents.createdAt} is restored into ${data.path}. Start it with ` +
      "`sandlot up`. Sandboxes that were running then are gone; paused ones are paused",
  );
  return failures.length === 0;
}

function requireEmpty(folder: string): void {
  if (!existsSync(folder) || readdirSync(folder).length === 0) return;
  throw new Fault(
    409,
    `${folder} is not empty. FIX: restore into a new folder with SANDLOT_DATA, or move this one away`,
  );
}

/**
 * What the cache folder has already. Disks and memory depend on every file of these folders, so one with the same name
 * and other content, made at another time, is an error.
 */
async function presentIn(cacheFolder: string, { cached }: Contents): Promise<ReadonlySet<string>> {
  const present = new Set<string>();
  for (const [path, digest] of Object.entries(cached)) {
    const folder = join(cacheFolder, path);
    if (!existsSync(folder)) continue;
    if ((await digestOf(folder)) === digest) present.add(path);
    else {
      throw new Fault(
        409,
        `${folder} differs from the one in the backup, which paused sandboxes and templates need. FIX: restore before ` +
          "the first start, or with SANDLOT_CACHE set to a new folder",
      );
    }
  }
  return present;
}

class Restore {
  readonly #stage: string;
  readonly #cacheStage: string;

  constructor(
    private readonly place: RestoreTarget,
    private readonly repository: Repository,
    private readonly contents: Contents,
    private readonly mounts: Mounts,
    private readonly disks: Disks,
  ) {
    this.#stage = disks.backupFolder;
    this.#cacheStage = join(place.cacheFolder, `restore.${basename(place.dataFolder)}`);
  }

  async restoreMain(present: ReadonlySet<string>): Promise<void> {
    const cache = join(this.#stage, "cache");
    rmSync(this.#cacheStage, { recursive: true, force: true });
    for (const folder of [this.#cacheStage, cache]) mkdirSync(folder, { recursive: true, mode: 0o700 });
    // Cached folders are renamed into place, so they must be on the filesystem of the cache folder.
    await run(["mount", "--bind", this.#cacheStage, cache]);
    const excluded = [...present].map((path) => `/cache/${path}`);
    await this.repository.restore(this.contents.main, STAGING_MOUNT, this.#stage, excluded);
    await unmount(cache);
  }

  async restoreCached(present: ReadonlySet<string>): Promise<void> {
    const { cacheFolder } = this.place;
    for (const path of Object.keys(this.contents.cached)) {
      if (present.has(path)) continue;
      const [kind, name] = path.split("/");
      if (kind === "images" && name !== undefined) {
        noteImage(cacheFolder, name);
        const below = belowFile(this.#cacheStage, name);
        if (existsSync(below)) renameSync(below, belowFile(cacheFolder, name));
      } else if (name !== undefined) mkdirSync(join(cacheFolder, kind ?? ""), { recursive: true, mode: 0o755 });
      renameSync(join(this.#cacheStage, path), join(cacheFolder, path));
    }
    this.#markCached();
    rmSync(this.#cacheStage, { recursive: true, force: true });
  }

  /** Another server on this cache folder removes what none has marked. The first start drops unneeded marks. */
  #markCached(): void {
    const { cacheFolder, dataFolder } = this.place;
    const data = new DataFolder(dataFolder);
    const named = (kind: string) =>
      Object.keys(this.contents.cached).flatMap((path) => (dirname(path) === kind ? [basename(path)] : []));
    const gone = [
      cachedImages(cacheFolder, data).mark(named("images")),
      cachedGuests(cacheFolder, data).mark(named("guests")),
    ].flat();
    if (gone.length > 0) throw new Fault(500, `${gone.join(", ")} of ${cacheFolder} were removed meanwhile`);
  }

  /** Returns what could not be restored. */
  async restoreCheckpoints(): Promise<string[]> {
    const failures: string[] = [];
    mkdirSync(this.disks.checkpointsFolder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(join(this.#stage, "checkpoints"))) {
      const folder = join(this.#stage, "checkpoints", name);
      try {
        await this.#makeReady(folder);
        renameSync(folder, join(this.disks.checkpointsFolder, name));
      } catch (cause) {
        if (isOfMachine(cause)) throw cause;
        failures.push(`checkpoint ${name} could not be restored: ${endOf(cause)}`);
      }
    }
    return failures;
  }

  async #makeReady(folder: string): Promise<void> {
    const { disk, manifest } = checkpointFolder(folder);
    unpackDisk(`${disk}.packed`, disk);
    for (const file of [`${disk}.packed`, `${disk}.packed.parts`]) rmSync(file);
    const target = join(this.#stage, "disk");
    mkdirSync(target, { recursive: true });
    await removeOverlayOrigin(this.mounts, disk, target);
    const text = withCacheFolder(readFileSync(manifest, "utf8"), this.contents.cacheFolder, this.place.cacheFolder);
    writeFileSync(manifest, text, { mode: 0o600 });
  }

  async restoreImages(): Promise<void> {
    const { images } = this.contents;
    mkdirSync(this.disks.imagesFolder, { recursive: true, mode: 0o700 });
    if (images === null) return;
    const failure = await restoreTree(this.repository, images, this.disks.imagesFolder);
    if (failure !== undefined) throw new Fault(500, `the images could not be restored: ${failure}`);
  }

  /** Returns what could not be restored. */
  async restoreVolumes(): Promise<string[]> {
    const failures: string[] = [];
    const volumes = join(this.place.dataFolder, "volumes");
    mkdirSync(volumes, { recursive: true, mode: 0o700 });
    const target = join(this.#stage, "volume");
    mkdirSync(target);
    for (const [name, { sizeMB, snapshot }] of Object.entries(this.contents.volumes)) {
      const folder = join(volumes, name);
      mkdirSync(folder, { mode: 0o700 });
      const image = volumeImage(folder);
      await makeImage(image, sizeMB);
      await mountImage(image, target, this.mounts);
      try {
        const failure = await restoreTree(this.repository, snapshot, target);
        if (failure !== undefined) failures.push(`not all files of volume ${name} could be restored: ${failure}`);
        // Only this reports that the filesystem below could not take what tar has written.
        await run(["sync", "--file-system", target], { timeoutMs: SYNC_MS });
      } finally {
        await unmount(target, { timeoutMs: SYNC_MS });
      }
      writeFileSync(volumeFacts(folder), JSON.stringify(VOLUME_FACTS), { mode: 0o600 });
    }
    return failures;
  }

  /** Completes the restore: without its note a server may start. */
  async finish(): Promise<void> {
    const { dataFolder, cacheFolder } = this.place;
    const kept = [STORE, KEPT_FILES, FETCHED_NOTES].flat().map((name) => join(this.#stage, name));
    const there = kept.filter((path) => existsSync(path));
    await run(["cp", "--archive", "--", ...there, dataFolder], { timeoutMs: SYNC_MS });
    rmSync(this.#stage, { recursive: true, force: true });
    const written = [dataFolder, cacheFolder, this.disks.checkpointsFolder];
    await run(["sync", "--file-system", ...written], { timeoutMs: SYNC_MS });
    rmSync(restoreNote(dataFolder));
  }
}

/** Whether the machine failed, and not the data of one tenant. */
function isOfMachine(cause: unknown): boolean {
  const all = [cause, cause instanceof Error ? cause.cause : undefined];
  return all.some((each) => MACHINE_ERRORS.has((each as NodeJS.ErrnoException | undefined)?.code ?? ""));
}
