/**
 * Checkpoints on disk: a folder each, on the filesystem of the disks, so that a disk can be cloned into it without
 * copying.
 *
 *   NAME/manifest.json   describes the checkpoint; written last
 *   NAME/disk.img        the disk
 *   NAME/memory/         the memory image of the runtime, if memory was kept
 *   NAME/memory.pack     second copies of its small files
 *   NAME/own/            files of the sandbox's run folder that were mounted into it
 *
 * A checkpoint is written under another name, made durable, and renamed into place: under its own name it is complete.
 * This folder never stops, starts or restores a sandbox.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { copyFile, readdir, readFile, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { syncPath } from "../../system/sync-path.ts";
import { type CheckpointFolder, checkpointFolder } from "./checkpoint-folder.ts";
import { requireIntact } from "./image-files.ts";
import { type ImageFiles, MANIFEST_FORMAT, type Manifest } from "./manifest.ts";

/** How long the removal of a checkpoint waits for running restores of it, and how often it checks. */
const CHECKPOINT_HELD_MS = scaled(60_000);
const CHECKPOINT_HELD_POLL_MS = 50;

const UNFINISHED = ".unfinished-";

export class Checkpoints {
  readonly #intact = new Map<string, Promise<void>>();
  /** Names of checkpoints that are being removed. */
  readonly #going = new Set<string>();

  constructor(readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // Also restricts a folder that already existed.
    chmodSync(folder, 0o700);
  }

  begin(name: string): CheckpointFolder {
    const draft = checkpointFolder(join(this.folder, UNFINISHED + named(name)));
    // Only root may read a checkpoint. If the runtime needs access to the memory image as another user, it opens that
    // folder itself.
    for (const path of [draft.path, draft.memory, draft.own]) mkdirSync(path, { mode: 0o700 });
    return draft;
  }

  /** Writes the manifest, when everything else is in place. */
  describe(draft: CheckpointFolder, manifest: Manifest): void {
    writeFileSync(draft.manifest, JSON.stringify(manifest), { mode: 0o600 });
  }

  /**
   * Makes the checkpoint durable, except the files of the memory image. All syncs run concurrently: order does not
   * matter before the rename, and a filesystem syncs many files in about the time of one.
   */
  async makeLasting({ disk, own, memory, manifest, path }: CheckpointFolder): Promise<void> {
    const ownFiles = (await readdir(own)).map((name) => join(own, name));
    await Promise.all([disk, ...ownFiles, manifest, own, memory, path].map(syncPath));
  }

  /** From then on the checkpoint exists; a lasting one must have been made durable before. */
  async commit(name: string, draft: CheckpointFolder, lasting: boolean): Promise<void> {
    renameSync(draft.path, join(this.folder, named(name)));
    if (lasting) await syncPath(this.folder);
    this.#intact.set(name, Promise.resolve());
  }

  /**
   * Throws Fault 422 when a file of the memory image differs from what was written. Each checkpoint is checked once:
   * files that this process wrote or has read are known to be intact.
   */
  async requireIntact(name: string, folder: CheckpointFolder, files: ImageFiles): Promise<void> {
    const intact = this.#intact.get(name) ?? requireIntact(folder, files);
    this.#intact.set(name, intact);
    intact.catch(() => this.#intact.delete(name));
    await intact;
  }

  /** Whether the checkpoint exists, complete, and is not being removed. */
  has(name: string): boolean {
    return !this.#going.has(name) && existsSync(this.folderOf(name).manifest);
  }

  /** The folder where the checkpoint is or would be. */
  folderOf(name: string): CheckpointFolder {
    return checkpointFolder(join(this.folder, named(name)));
  }

  /** Throws Fault 404 when the checkpoint or its disk is missing, 422 when this program cannot read its manifest. */
  read(name: string): { folder: CheckpointFolder; manifest: Manifest } {
    const folder = this.folderOf(name);
    if (!this.has(name)) throw new Fault(404, `there is no checkpoint "${name}" on this machine`);
    if (!existsSync(folder.disk)) throw new Fault(404, `the disk of checkpoint "${name}" is missing on this machine`);
    const manifest = readManifest(folder.manifest, name);
    if (manifest.format !== MANIFEST_FORMAT) {
      throw new Fault(422, `checkpoint "${name}" has format ${manifest.format}; this program reads ${MANIFEST_FORMAT}`);
    }
    return { folder, manifest };
  }

  /** Replaces a checkpoint that has the new name. No other code of this process ever finds the new name missing. */
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

  /** Removes a checkpoint, including an unfinished one. */
  async remove(name: string): Promise<void> {
    this.#intact.delete(name);
    const path = join(this.folder, named(name));
    const leaving = join(this.folder, UNFINISHED + named(name));
    this.#going.add(name);
    try {
      // A partly removed folder must not look like a checkpoint.
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

  /** Guest folders that memory images depend on. */
  async guestFolders(): Promise<ReadonlySet<string>> {
    return await this.#collect(({ memory }) => memory?.guestFolder ?? []);
  }

  /** Returns which of those in `keep` exist. No checkpoint may be in progress. */
  async keepOnly(keep: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    await this.#removeUnfinished();
    const found = new Set<string>();
    for (const name of await this.list()) {
      if (keep.has(name)) found.add(name);
      else await this.remove(name);
    }
    return found;
  }

  async #collect(part: (manifest: Manifest) => string | []): Promise<ReadonlySet<string>> {
    const parts = await Promise.all(
      (await this.list()).map(async (name) => {
        const { manifest } = checkpointFolder(join(this.folder, name));
        // The checkpoint may have been removed meanwhile.
        const text = await readFile(manifest, "utf8").catch(ifMissing);
        return text === undefined ? [] : part(JSON.parse(text) as Manifest);
      }),
    );
    return new Set(parts.flat());
  }

  async #removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.folder)) {
      if (name.startsWith(UNFINISHED)) await removeTree(join(this.folder, name));
    }
  }
}

function readManifest(path: string, name: string): Manifest {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest;
  } catch (cause) {
    throw new Fault(422, `the manifest of checkpoint "${name}" is damaged on disk`, { cause });
  }
}

/** Copies the files that are mounted into a sandbox: into a checkpoint, or from it to a new sandbox. */
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

function named(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(name))
    throw new Fault(500, `${JSON.stringify(name)} cannot name a checkpoint`);
  return name;
}

/** The kernel holds a file of a memory image (EBUSY) while it is being restored. */
async function removeTree(path: string): Promise<void> {
  const untilMs = performance.now() + CHECKPOINT_HELD_MS;
  for (;;) {
    try {
      return await rm(path, { recursive: true, force: true });
    } catch (error) {
      if (systemCode(error) !== "EBUSY" || performance.now() > untilMs) throw error;
      await Bun.sleep(CHECKPOINT_HELD_POLL_MS);
    }
  }
}
