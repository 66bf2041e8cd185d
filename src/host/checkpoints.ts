/**
 * Checkpoints on disk: a folder each, beside the disks, so that a disk can be cloned into one without copying.
 *
 *   NAME/manifest.json   what it is; written last
 *   NAME/disk.img        the disk
 *   NAME/memory/         CRIU's images, if memory was kept
 *   NAME/own/            files of the sandbox's run folder that were mounted into it
 *
 * A checkpoint is written under another name, made durable, and renamed into place: one that has its name is whole.
 */
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { cp, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import { DIGEST_SLICE_BYTES } from "../contract/limits.ts";
import { HOST_ID_FIRST } from "./id-range.ts";
import { MANIFEST_FORMAT, type Manifest, type MemoryFacts } from "./manifest.ts";

const UNFINISHED = ".unfinished-";
const DIGESTS_AT_ONCE = 4;

/** Where the parts of a checkpoint are. */
export class CheckpointFolder {
  constructor(readonly path: string) {}

  get disk(): string {
    return join(this.path, "disk.img");
  }

  get memory(): string {
    return join(this.path, "memory");
  }

  get own(): string {
    return join(this.path, "own");
  }

  get manifest(): string {
    return join(this.path, "manifest.json");
  }
}

export class Checkpoints {
  readonly #seenIntact = new Set<string>();

  constructor(readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o711 });
  }

  /** An empty folder to write a checkpoint into. */
  begin(name: string): CheckpointFolder {
    const draft = new CheckpointFolder(join(this.folder, UNFINISHED + named(name)));
    mkdirSync(draft.path, { mode: 0o711 });
    // CRIU reads the images from inside the user namespace, first still as the machine's root without its powers (the owner),
    // then as the mapped one (the group).
    mkdirSync(draft.memory, { mode: 0o750 });
    chownSync(draft.memory, 0, HOST_ID_FIRST);
    mkdirSync(draft.own, { mode: 0o711 });
    return draft;
  }

  /** Makes durable what was written so far. */
  async makeLasting(draft: CheckpointFolder): Promise<void> {
    await makeDurable(draft.path);
  }

  /** Gives it its name. From then on it exists; one that is to last has been made lasting before. */
  async commit(name: string, draft: CheckpointFolder, manifest: Manifest, lasting: boolean): Promise<void> {
    writeFileSync(draft.manifest, JSON.stringify(manifest), { mode: 0o600 });
    if (lasting) {
      await syncPath(draft.manifest);
      await syncPath(draft.path);
    }
    renameSync(draft.path, join(this.folder, named(name)));
    if (lasting) await syncPath(this.folder);
    this.#seenIntact.add(name);
  }

  /** Fault 422 when a file of the memory image is not what was written. Looked at once: what this process wrote or read is whole. */
  async demandIntact(name: string, folder: CheckpointFolder, files: MemoryFacts["files"]): Promise<void> {
    if (this.#seenIntact.has(name)) return;
    await demandIntact(folder, files);
    this.#seenIntact.add(name);
  }

  /** Whether it is there, whole. */
  has(name: string): boolean {
    return existsSync(new CheckpointFolder(join(this.folder, named(name))).manifest);
  }

  /** Fault 404 when there is none, 422 when it is not one that this program can read. */
  read(name: string): { folder: CheckpointFolder; manifest: Manifest } {
    const folder = new CheckpointFolder(join(this.folder, named(name)));
    if (!existsSync(folder.manifest)) throw new Fault(404, `there is no checkpoint "${name}" on this machine`);
    const manifest = JSON.parse(readFileSync(folder.manifest, "utf8")) as Manifest;
    if (manifest.format !== MANIFEST_FORMAT) {
      throw new Fault(422, `checkpoint "${name}" has format ${manifest.format}; this program reads ${MANIFEST_FORMAT}`);
    }
    return { folder, manifest };
  }

  /** Also what was only begun. */
  async remove(name: string): Promise<void> {
    this.#seenIntact.delete(name);
    const path = join(this.folder, named(name));
    const leaving = join(this.folder, UNFINISHED + named(name));
    // What is half removed must not be taken for a checkpoint.
    if (existsSync(path)) {
      await rm(leaving, { recursive: true, force: true });
      renameSync(path, leaving);
    }
    await rm(leaving, { recursive: true, force: true });
  }

  async list(): Promise<string[]> {
    return (await readdir(this.folder)).filter((name) => !name.startsWith("."));
  }

  /** Removes what was begun and never finished. Nothing may be under way. */
  async removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.folder)) {
      if (name.startsWith(UNFINISHED)) await rm(join(this.folder, name), { recursive: true, force: true });
    }
  }
}

/** Keeps the sandbox's own files that were mounted into it, and gives them to the one that is made from the checkpoint. */
export async function copyOwnFiles(from: string, to: string, names: readonly string[]): Promise<void> {
  for (const name of names) await cp(join(from, name), join(to, name), { preserveTimestamps: true });
}

/** Of one that is not meant to last, only the names. */
export async function digestMemory(folder: CheckpointFolder, lasting: boolean): Promise<MemoryFacts["files"]> {
  const files: MemoryFacts["files"] = {};
  await eachOf((await readdir(folder.memory)).sort(), async (name) => {
    files[name] = lasting ? await digest(join(folder.memory, name)) : { bytes: 0, digest: "" };
  });
  return files;
}

async function demandIntact(folder: CheckpointFolder, files: MemoryFacts["files"]): Promise<void> {
  await eachOf(Object.keys(files), async (name) => {
    const wanted = files[name];
    const found = await digest(join(folder.memory, name)).catch(() => undefined);
    if (found?.bytes === wanted?.bytes && found?.digest === wanted?.digest) return;
    throw new Fault(
      422,
      `the memory of this sandbox is damaged on disk (${name} ${found === undefined ? "cannot be read" : "has changed"}). ` +
        "memory: false starts it from its disk",
    );
  });
}

/**
 * Against decay, not against forgery: whoever can write here is root already. In slices, so that a large image does not hold
 * the server up.
 */
async function digest(path: string): Promise<{ bytes: number; digest: string }> {
  const file = await open(path, "r");
  try {
    const slice = Buffer.allocUnsafe(DIGEST_SLICE_BYTES);
    let [bytes, sum] = [0, 0n];
    for (;;) {
      const { bytesRead } = await file.read(slice, 0, slice.length, bytes);
      if (bytesRead === 0) return { bytes, digest: sum.toString(16) };
      sum = Bun.hash.xxHash3(slice.subarray(0, bytesRead), sum);
      bytes += bytesRead;
    }
  } finally {
    await file.close();
  }
}

async function makeDurable(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true });
  await eachOf(entries, async (entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeDurable(path);
    else await syncPath(path);
  });
  await syncPath(folder);
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function eachOf<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const line = [...items];
  const worker = async () => {
    for (let next = line.shift(); next !== undefined; next = line.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: DIGESTS_AT_ONCE }, worker));
}

function named(name: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,127}$/.test(name))
    throw new Fault(500, `${JSON.stringify(name)} cannot name a checkpoint`);
  return name;
}
