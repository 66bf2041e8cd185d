/**
 * Checkpoints on disk: a folder each, beside the disks, so that a disk can be cloned into one without copying.
 *
 *   NAME/manifest.json   what it is; written last
 *   NAME/disk.img        the disk
 *   NAME/memory/         the image of the runtime, if memory was kept
 *   NAME/memory.pack     the small ones of them once more
 *   NAME/own/            files of the sandbox's run folder that were mounted into it
 *
 * A checkpoint is written under another name, made durable, and renamed into place: one that has its name is whole.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { copyFile, open, readdir, readFile, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { type CheckpointFolder, checkpointFolder } from "./checkpoint-folder.ts";
import { demandIntact } from "./image-files.ts";
import { type ImageFiles, MANIFEST_FORMAT, type Manifest } from "./manifest.ts";

/** The removal of a checkpoint waits so long for restores of it, which take less, and looks so often. */
const CHECKPOINT_HELD_MS = scaled(60_000);
const CHECKPOINT_HELD_LOOK_MS = 50;

const UNFINISHED = ".unfinished-";

export class Checkpoints {
  readonly #intact = new Map<string, Promise<void>>();
  /** Those that are being removed. */
  readonly #going = new Set<string>();

  constructor(readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // For root alone, whatever the folder was before.
    chmodSync(folder, 0o700);
  }

  /** An empty folder to write a checkpoint into. */
  begin(name: string): CheckpointFolder {
    const draft = checkpointFolder(join(this.folder, UNFINISHED + named(name)));
    // For root alone. Who else must read the memory image is the runtime's to say, which opens that folder to them.
    for (const path of [draft.path, draft.memory, draft.own]) mkdirSync(path, { mode: 0o700 });
    return draft;
  }

  /** All that is to be in it is there. */
  describe(draft: CheckpointFolder, manifest: Manifest): void {
    writeFileSync(draft.manifest, JSON.stringify(manifest), { mode: 0o600 });
  }

  /**
   * Makes it durable, but for the files of the memory image. All at once: until it has its name it makes no difference
   * what is there and what is not, and a filesystem makes many durable in about the time that it takes for one.
   */
  async makeLasting({ disk, own, memory, manifest, path }: CheckpointFolder): Promise<void> {
    const ownFiles = (await readdir(own)).map((name) => join(own, name));
    await Promise.all([disk, ...ownFiles, manifest, own, memory, path].map(syncPath));
  }

  /** Gives it its name. From then on it exists; one that is to last has been made lasting before. */
  async commit(name: string, draft: CheckpointFolder, lasting: boolean): Promise<void> {
    renameSync(draft.path, join(this.folder, named(name)));
    if (lasting) await syncPath(this.folder);
    this.#intact.set(name, Promise.resolve());
  }

  /**
   * Fault 422 when a file of the memory image is not what was written. Looked at once: what this process wrote or read
   * is whole.
   */
  async demandIntact(name: string, folder: CheckpointFolder, files: ImageFiles): Promise<void> {
    const intact = this.#intact.get(name) ?? demandIntact(folder, files);
    this.#intact.set(name, intact);
    intact.catch(() => this.#intact.delete(name));
    await intact;
  }

  /** Whether it is there, whole, and stays. */
  has(name: string): boolean {
    return !this.#going.has(name) && existsSync(this.folderOf(name).manifest);
  }

  /** Where it is, or would be. */
  folderOf(name: string): CheckpointFolder {
    return checkpointFolder(join(this.folder, named(name)));
  }

  /** Fault 404 when there is none, 422 when it is not one that this program can read. */
  read(name: string): { folder: CheckpointFolder; manifest: Manifest } {
    const folder = this.folderOf(name);
    if (!this.has(name)) throw new Fault(404, `there is no checkpoint "${name}" on this machine`);
    const manifest = JSON.parse(readFileSync(folder.manifest, "utf8")) as Manifest;
    if (manifest.format !== MANIFEST_FORMAT) {
      throw new Fault(422, `checkpoint "${name}" has format ${manifest.format}; this program reads ${MANIFEST_FORMAT}`);
    }
    return { folder, manifest };
  }

  /** Nobody ever finds none under the new name where there was one, which goes. */
  async rename(name: string, to: string): Promise<void> {
    const path = join(this.folder, named(to));
    const leaving = join(this.folder, UNFINISHED + named(to));
    await removeTree(leaving);
    if (existsSync(path)) renameSync(path, leaving);
    renameSync(join(this.folder, named(name)), path);
    for (const each of [name, to]) this.#intact.delete(each);
    await syncPath(this.folder);
    await removeTree(leaving);
  }

  /** Also what was only begun. */
  async remove(name: string): Promise<void> {
    this.#intact.delete(name);
    const path = join(this.folder, named(name));
    const leaving = join(this.folder, UNFINISHED + named(name));
    this.#going.add(name);
    try {
      // What is half removed must not be taken for a checkpoint.
      if (existsSync(path)) {
        await removeTree(leaving);
        renameSync(path, leaving);
      }
      await removeTree(leaving);
    } finally {
      this.#going.delete(name);
    }
  }

  async list(): Promise<string[]> {
    return (await readdir(this.folder)).filter((name) => !name.startsWith("."));
  }

  /** Names of the images that checkpoints start from. */
  async images(): Promise<ReadonlySet<string>> {
    return await this.#collect(({ kind }) => kind.image);
  }

  /** Folders of the guests that are in their memory. */
  async guestFolders(): Promise<ReadonlySet<string>> {
    return await this.#collect(({ memory }) => memory?.guestFolder ?? []);
  }

  /** Removes all but those in `keep`, and answers which of these there are. Nothing may be under way. */
  async keepOnly(keep: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    await this.#removeUnfinished();
    const found = new Set<string>();
    for (const name of await this.list()) {
      if (keep.has(name)) found.add(name);
      else await this.remove(name);
    }
    return found;
  }

  /** From the manifests of all. */
  async #collect(part: (manifest: Manifest) => string | []): Promise<ReadonlySet<string>> {
    const parts = await Promise.all(
      (await this.list()).map(async (name) => {
        const { manifest } = checkpointFolder(join(this.folder, name));
        // It may have gone since; so may what is half removed.
        const text = await readFile(manifest, "utf8").catch(ifMissing);
        return text === undefined ? [] : part(JSON.parse(text) as Manifest);
      }),
    );
    return new Set(parts.flat());
  }

  /** Removes what was begun and never finished. */
  async #removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.folder)) {
      if (name.startsWith(UNFINISHED)) await removeTree(join(this.folder, name));
    }
  }
}

/**
 * Keeps the sandbox's own files that were mounted into it, and gives them to the one that is made from the checkpoint.
 */
export async function copyOwnFiles(from: string, to: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const [source, target] = [join(from, name), join(to, name)];
    await copyFile(source, target);
    const { atime, mtime } = await stat(source);
    await utimes(target, atime, mtime);
  }
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** A file, or the names in a folder. */
export async function syncPath(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}

function named(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(name))
    throw new Fault(500, `${JSON.stringify(name)} cannot name a checkpoint`);
  return name;
}

/** A file of a memory image that is just being restored is held by the kernel until it is. */
async function removeTree(path: string): Promise<void> {
  const untilMs = performance.now() + CHECKPOINT_HELD_MS;
  for (;;) {
    try {
      return await rm(path, { recursive: true, force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EBUSY" || performance.now() > untilMs) throw error;
      await Bun.sleep(CHECKPOINT_HELD_LOOK_MS);
    }
  }
}
