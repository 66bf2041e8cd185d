/**
 * The files of a memory image on disk. There are dozens, some per process, and most are tiny. An fsync costs one round
 * trip to the disk however small the file is. So small files are also concatenated into one file, the pack, and only
 * the pack and the large files are synced. After a crash of the machine a small file may be missing or torn; it is then
 * read from the pack.
 */
import { chmodSync, closeSync, fchmodSync, fstatSync, openSync, readFileSync } from "node:fs";
import { type FileHandle, open, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { forEachLimited } from "../../base/for-each-limited.ts";
import { Fault } from "../../contract/fault.ts";
import { ENTRIES_PER_TURN } from "../limits.ts";
import type { CheckpointFolder } from "./checkpoint-folder.ts";
import type { ImageFile, ImageFiles } from "./manifest.ts";

const FILES_AT_ONCE = 4;

/** Files of a memory image up to this size are made durable together, in the pack. */
export const PACKED_FILE_MAX_BYTES = 128 * 1024;
/** Bytes of an image file to digest in one step. */
export const DIGEST_SLICE_BYTES = 4 * 1024 * 1024;

/** CRIU makes its files world-readable. The group is the mapped root, which reads them during a restore. */
const IMAGE_MODE = 0o640;

/** An image whose files are known, and a promise that resolves when they are durable. */
export interface SealedImage {
  files: ImageFiles;
  durable: Promise<void>;
}

/** Lists an image that does not have to survive a crash of the machine. */
export async function listImage(folder: CheckpointFolder): Promise<SealedImage> {
  const names = await readdir(folder.memory);
  for (const name of names) chmodSync(join(folder.memory, name), IMAGE_MODE);
  const files = Object.fromEntries(names.map((name) => [name, { bytes: 0, digest: "" }]));
  return { files, durable: Promise.resolve() };
}

/** Starts to make an image durable, and returns its files. When it throws, no work is left running. */
export async function sealImage(folder: CheckpointFolder): Promise<SealedImage> {
  const files: ImageFiles = {};
  const syncs: Promise<void>[] = [];
  try {
    await seal(folder, files, syncs);
  } catch (cause) {
    await Promise.allSettled(syncs);
    throw cause;
  }
  const durable = Promise.all(syncs).then(() => undefined);
  durable.catch(() => undefined);
  return { files, durable };
}

async function seal(folder: CheckpointFolder, files: ImageFiles, syncs: Promise<void>[]): Promise<void> {
  const pack = await open(folder.pack, "w", 0o600);
  let large: string[];
  try {
    large = await packSmall(folder.memory, pack, files);
  } catch (cause) {
    await pack.close();
    throw cause;
  }
  syncs.push(synced(pack));
  await forEachLimited(large, FILES_AT_ONCE, async (name) => {
    const file = await open(join(folder.memory, name), "r");
    const digested = digestOf(file);
    syncs.push(synced(file, digested));
    files[name] = await digested;
  });
}

/** Writes the small files to the pack and returns the names of the others. */
async function packSmall(memory: string, pack: FileHandle, files: ImageFiles): Promise<string[]> {
  const large: string[] = [];
  let gathered: Buffer[] = [];
  let [begin, end, looked] = [0, 0, 0];
  const writeGathered = async () => {
    const content = Buffer.concat(gathered);
    gathered = [];
    await pack.write(content, 0, content.length, begin);
    begin += content.length;
  };
  // Reads on this thread: the files are in the page cache, and handing each to another thread takes longer than reading
  // it.
  for (const name of await readdir(memory)) {
    const content = smallContent(join(memory, name));
    if (content === undefined) large.push(name);
    else {
      files[name] = { bytes: content.length, digest: digest(content), at: end };
      gathered.push(content);
      end += content.length;
    }
    if (end - begin > DIGEST_SLICE_BYTES) await writeGathered();
    else if (++looked % ENTRIES_PER_TURN === 0) await setImmediate();
  }
  await writeGathered();
  return large;
}

/** Syncs the file, waits for its readers, and closes it. */
async function synced(file: FileHandle, reading?: Promise<unknown>): Promise<void> {
  try {
    await file.sync();
  } finally {
    await reading?.catch(() => undefined);
    await file.close();
  }
}

/** Undefined for a large file. */
function smallContent(path: string): Buffer | undefined {
  const file = openSync(path, "r");
  try {
    fchmodSync(file, IMAGE_MODE);
    return fstatSync(file).size > PACKED_FILE_MAX_BYTES ? undefined : readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** Throws Fault 422 when a file differs from what was written and the pack cannot replace it. */
export async function requireIntact(folder: CheckpointFolder, files: ImageFiles): Promise<void> {
  await forEachLimited(Object.entries(files), FILES_AT_ONCE, async ([name, wanted]) => {
    const path = join(folder.memory, name);
    const found = await factsOf(path).catch(() => undefined);
    if (found?.bytes === wanted.bytes && found.digest === wanted.digest) return;
    const content = await packed(folder, wanted).catch(() => undefined);
    if (content !== undefined && digest(content) === wanted.digest) {
      await writeFile(path, content, { mode: IMAGE_MODE });
      return;
    }
    throw new Fault(
      422,
      `the memory of this sandbox is damaged on disk (${name} ${found === undefined ? "cannot be read" : "has changed"}). ` +
        "memory: false starts it from its disk",
    );
  });
}

async function packed(folder: CheckpointFolder, { at, bytes }: ImageFile): Promise<Buffer | undefined> {
  if (at === undefined) return undefined;
  await using pack = await open(folder.pack, "r");
  return await read(pack, at, bytes);
}

async function factsOf(path: string): Promise<ImageFile> {
  await using file = await open(path, "r");
  return await digestOf(file);
}

/** Reads in slices, so that a large file does not block the server. */
async function digestOf(file: FileHandle): Promise<ImageFile> {
  const { size } = await file.stat();
  const slice = Buffer.allocUnsafe(Math.min(size, DIGEST_SLICE_BYTES) + 1);
  let bytes = 0;
  let sum: string | undefined;
  for (;;) {
    const { bytesRead } = await file.read(slice, 0, slice.length, bytes);
    if (bytesRead === 0) return { bytes, digest: sum ?? digest(Buffer.of()) };
    sum = digest(slice.subarray(0, bytesRead), sum);
    bytes += bytesRead;
  }
}

/** Protects against decay, not against forgery: only root can write here. */
function digest(content: Buffer, before = "0"): string {
  return Bun.hash.xxHash3(content, BigInt(`0x${before}`)).toString(16);
}

async function read(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const content = Buffer.allocUnsafe(bytes);
  const { bytesRead } = await file.read(content, 0, bytes, at);
  return content.subarray(0, bytesRead);
}
