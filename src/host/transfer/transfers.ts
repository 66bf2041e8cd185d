/**
 * Moves the bytes of paused sandboxes between machines through blobs that both reach:
 *
 *   export   links the checkpoint → stores images, guest and sandbox → stores their description, which names all
 *   import   images → guest → marks → draft of the checkpoint → memory verified → checkpoint gets its name
 *
 * Each step of an import is verified by digest and becomes visible by one rename, so a killed import leaves images that
 * other sandboxes may use as well, and drafts that the next one removes. The checkpoint remains where it was: this
 * folder does not decide which machine owns a sandbox. The row of the sandbox does, so the caller changes the row after
 * the import, and removes the old checkpoint after that.
 *
 * An overlay accepts only the very folders that its disk was made over, or a disk without their traces
 * (overlay-origin.ts). An import removes these traces, and so each image must be a copy with the same digest.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { SerialQueue } from "../../base/serial-queue.ts";
import { scaled } from "../../base/time-factor.ts";
import type { Blobs } from "../../blobs/blobs.ts";
import { Fault } from "../../contract/fault.ts";
import { cachedImages, noteImage } from "../../images/cached-images.ts";
import type { Disks } from "../../images/disk/disks.ts";
import { removeOverlayOrigin } from "../../images/disk/overlay-origin.ts";
import { cachedGuests, guestFolderNamed } from "../../images/guest-folders.ts";
import { bytesOf, cloneWithAllNames } from "../../images/image-copy.ts";
import { belowFile, imageFolder } from "../../images/image-folder.ts";
import type { Images } from "../../images/images.ts";
import { checkpointFolder } from "../../sandbox/checkpoint/checkpoint-folder.ts";
import type { Checkpoints } from "../../sandbox/checkpoint/checkpoints.ts";
import { requireIntact } from "../../sandbox/checkpoint/image-files.ts";
import {
  MANIFEST_FORMAT,
  type Manifest,
  type MemoryFacts,
  volumesIn,
  withCacheFolder,
} from "../../sandbox/checkpoint/manifest.ts";
import { run } from "../../system/command.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { mountPoints } from "../../system/mount/mount-namespace.ts";
import { describeExport, type ExportContents, type ExportedImage, readExport } from "./contents.ts";
import { type Part, PartStore, type Tree } from "./part-store.ts";

const SYNC_MS = scaled(600_000);
const COPY_MS = scaled(60_000);

interface TransferParts {
  data: DataFolder;
  cacheFolder: string;
  checkpoints: Checkpoints;
  images: Images;
  disks: Disks;
  blobs: Blobs;
  /** Why memory with these facts cannot be restored here; undefined when it can. */
  mismatch(memory: MemoryFacts): string | undefined;
}

export class Transfers {
  readonly #store: PartStore;
  readonly #imports = new SerialQueue();
  /** Parts of folders that never change. */
  readonly #known = new Map<string, Promise<Part>>();

  private constructor(
    private readonly parts: TransferParts,
    private readonly scratch: string,
    private readonly cacheScratch: string,
  ) {
    this.#store = new PartStore(parts.blobs, scratch);
  }

  /** Only one process may have it open for a data folder. */
  static async open(parts: TransferParts): Promise<Transfers> {
    const scratch = parts.disks.transferFolder;
    const cacheScratch = join(parts.cacheFolder, `transfer.${parts.data.tag}`);
    const below = mountPoints().filter((point) => point.startsWith(`${scratch}/`));
    for (const target of below.reverse()) await parts.disks.mounts.do({ kind: "detach", target });
    for (const folder of [scratch, cacheScratch]) rmSync(folder, { recursive: true, force: true });
    mkdirSync(scratch, { recursive: true, mode: 0o700 });
    return new Transfers(parts, scratch, cacheScratch);
  }

  /**
   * Stores a checkpoint and all that it needs, and returns the digest that names them. The checkpoint stays. Fault 404
   * if there is none, 422 for a sandbox with volumes, which are on this machine only.
   */
  async export(name: string): Promise<string> {
    const { checkpoints, images, cacheFolder } = this.parts;
    const { folder, manifest } = checkpoints.read(name);
    requireWithoutVolumes(manifest);
    using _image = images.hold(manifest.kind.image);
    // Read before it could be removed.
    const text = readFileSync(folder.manifest, "utf8");
    const sandbox = await this.#saveSandbox(name, manifest.kind.image);
    const stack: ExportedImage[] = [];
    for (const { folder: path, ...image } of images.stackOf(manifest.kind.image).reverse()) {
      stack.push({ ...image, tree: await this.#saveLasting(imageTree(path)) });
    }
    const guest = manifest.memory === undefined ? null : await this.#saveGuest(manifest.memory.guestFolder);
    return await this.#store.saveText(
      describeExport({ checkpoint: name, cacheFolder, manifest: text, images: stack, guest, sandbox }),
    );
  }

  /**
   * Makes an exported checkpoint one of this machine, durably, and returns its name. Idempotent. Fault 409 if an image
   * or guest with a name that it needs has other content here, 422 if its memory does not fit this machine or a part is
   * damaged, 404 if a part is missing.
   */
  async import(digest: string): Promise<string> {
    const contents = readExport(await this.#store.loadText(digest));
    const { checkpoint } = contents;
    await this.#imports.run(async () => {
      // Checkpoints never change, and their names are never used again.
      if (!this.parts.checkpoints.has(checkpoint)) await this.#import(contents);
    });
    return checkpoint;
  }

  async #import(contents: ExportContents): Promise<void> {
    const { checkpoint: name, images, guest, sandbox } = contents;
    const { checkpoints } = this.parts;
    const manifest = this.#manifestHere(contents);
    using _image = this.parts.images.hold(manifest.kind.image);
    for (const image of images) await this.#takeImage(image);
    if (guest !== null) await this.#takeGuest(guest.name, guest.tree);
    this.#markCached(contents);
    // The draft of an import that was killed.
    await checkpoints.remove(name);
    const draft = checkpoints.begin(name);
    try {
      await this.#load(sandbox, draft.path);
      await this.#removeOverlayOrigin(draft.disk);
      if (manifest.memory !== undefined) await requireIntact(draft, manifest.memory.files);
      checkpoints.describe(draft, manifest);
      await run(["sync", "--file-system", draft.path], { timeoutMs: SYNC_MS });
      await checkpoints.commit(name, draft, true);
      // A search for unneeded folders may have dropped the marks before the checkpoint was there.
      this.#markCached(contents);
    } catch (cause) {
      await checkpoints.remove(name);
      throw cause;
    }
  }

  /** Keeps other servers from removing what the checkpoint needs of the cache folder. */
  #markCached({ images, guest }: ExportContents): void {
    const { cacheFolder, data } = this.parts;
    const cached = images.flatMap((image) => (image.kind === "cached" ? [image.name] : []));
    const gone = [
      cachedImages(cacheFolder, data).mark(cached),
      cachedGuests(cacheFolder, data).mark(guest === null ? [] : [guest.name]),
    ].flat();
    if (gone.length > 0) throw new Fault(500, `${gone.join(", ")} of ${cacheFolder} were removed meanwhile`);
  }

  /** The archive and its files are there at the same time. */
  async #load(part: Part, folder: string): Promise<void> {
    this.parts.disks.requireSpace(2 * part.bytes);
    await this.#store.loadTree(part, folder);
  }

  async #save(tree: Tree): Promise<Part> {
    this.parts.disks.requireSpace(await bytesOf(tree.folder));
    return await this.#store.saveTree(tree);
  }

  #manifestHere({ manifest: text, cacheFolder }: ExportContents): Manifest {
    const manifest = parseManifest(withCacheFolder(text, cacheFolder, this.parts.cacheFolder));
    requireWithoutVolumes(manifest);
    const reason = manifest.memory && this.parts.mismatch(manifest.memory);
    if (reason === undefined) return manifest;
    throw new Fault(422, `the memory of this sandbox cannot be restored on this machine: ${reason}`);
  }

  /** The layers are copies here: removes the attributes by which the disk names the originals. */
  async #removeOverlayOrigin(disk: string): Promise<void> {
    const target = join(this.scratch, "disk");
    mkdirSync(target, { mode: 0o700 });
    try {
      await removeOverlayOrigin(this.parts.disks.mounts, disk, target);
    } finally {
      await rm(target, { recursive: true, force: true });
    }
  }

  async #saveSandbox(name: string, image: string): Promise<Part> {
    const { checkpoints, disks, images } = this.parts;
    const work = join(this.scratch, crypto.randomUUID());
    mkdirSync(work, { mode: 0o700 });
    try {
      const copy = checkpointFolder(join(work, "checkpoint"));
      // Links: a removal of the checkpoint takes only its names.
      const linking = [
        "cp",
        "--archive",
        "--link",
        "--no-target-directory",
        checkpoints.folderOf(name).path,
        copy.path,
      ];
      await run(linking, { timeoutMs: COPY_MS });
      const clone = join(work, "disk.img");
      const isWritten = await cloneWithAllNames(disks, copy.disk, clone, images.lowersOf(image), work);
      if (isWritten) renameSync(clone, copy.disk);
      const names = readdirSync(copy.path).filter((each) => each !== basename(copy.manifest));
      return await this.#save({ folder: copy.path, names: names.sort(), isDated: true });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  async #saveGuest(folder: string): Promise<NonNullable<ExportContents["guest"]>> {
    return { name: basename(folder), tree: await this.#saveLasting(guestTree(folder)) };
  }

  #saveLasting(tree: Tree): Promise<Part> {
    return this.#remember(tree.folder, () => this.#save(tree));
  }

  #remember(folder: string, work: () => Promise<Part>): Promise<Part> {
    const known = this.#known.get(folder) ?? work();
    this.#known.set(folder, known);
    known.catch(() => this.#known.delete(folder));
    return known;
  }

  async #takeImage({ name, kind, below, tree }: ExportedImage): Promise<void> {
    const { images, cacheFolder } = this.parts;
    if (images.has(name)) return await this.#requireSame(imageTree(imagePath(images, name)), tree);
    if (kind === "built") return await images.install(name, (folder) => this.#load(tree, folder));
    noteImage(cacheFolder, name);
    // Before the image, because an image with its name must be complete.
    if (below !== null) writeFileSync(belowFile(cacheFolder, name), below, { mode: 0o644 });
    await this.#takeCached(imageFolder(cacheFolder, name), tree);
  }

  async #takeGuest(name: string, tree: Part): Promise<void> {
    const folder = guestFolderNamed(this.parts.cacheFolder, name);
    if (existsSync(folder)) await this.#requireSame(guestTree(folder), tree);
    else await this.#takeCached(folder, tree);
  }

  /** Unpacks beside the target, on its filesystem, and renames. */
  async #takeCached(target: string, tree: Part): Promise<void> {
    const folder = join(this.cacheScratch, crypto.randomUUID());
    for (const each of [folder, dirname(target)]) mkdirSync(each, { recursive: true, mode: 0o755 });
    try {
      await this.#load(tree, folder);
      await run(["sync", "--file-system", folder], { timeoutMs: SYNC_MS });
      await rename(folder, target);
    } finally {
      await rm(this.cacheScratch, { recursive: true, force: true });
    }
    this.#known.set(target, Promise.resolve(tree));
  }

  /** Names do not tell builds of an image apart, and a disk over another build would show other files. */
  async #requireSame(tree: Tree, wanted: Part): Promise<void> {
    const { digest } = await this.#remember(tree.folder, () => this.#store.describeTree(tree));
    if (digest === wanted.digest) return;
    throw new Fault(
      409,
      `${tree.folder} differs from the one that the exported sandbox needs. FIX: use a cache folder without it`,
    );
  }
}

function imageTree(folder: string): Tree {
  return { folder, names: ["."], isDated: true };
}

/**
 * Machines that compile the same guest get the same files, at other times. The time of the folder itself says when it
 * was last used.
 */
function guestTree(folder: string): Tree {
  return { folder, names: readdirSync(folder).sort(), isDated: false };
}

function imagePath(images: Images, name: string): string {
  const [top] = images.stackOf(name);
  if (top === undefined) throw new Fault(404, `the image "${name}" is not on this machine`);
  return top.folder;
}

function requireWithoutVolumes({ memory }: Manifest): void {
  const [first] = memory === undefined ? [] : volumesIn(memory.mounts);
  if (first === undefined) return;
  throw new Fault(422, `the sandbox has the volume "${first.volume}" mounted, which is on one machine only`);
}

function parseManifest(text: string): Manifest {
  try {
    const manifest = JSON.parse(text) as Manifest;
    if (manifest.format === MANIFEST_FORMAT) return manifest;
  } catch {
    // Refused below.
  }
  throw new Fault(422, "the manifest of the exported sandbox is damaged or of another version");
}
