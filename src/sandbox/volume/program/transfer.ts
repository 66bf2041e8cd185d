/** Reads and writes file content in the volume that this process is confined to. */
import { closeSync, constants, fstatSync, read as readDescriptor, type Stats } from "node:fs";
import { type FileHandle, lstat, open, rename, unlink } from "node:fs/promises";
import { join } from "node:path/posix";
import { promisify } from "node:util";
import { systemCode } from "../../../base/system-code.ts";
import { Fault } from "../../../contract/fault.ts";
import type { EntryOptions, VolumeEntry } from "../../../contract/internal/volume-content.ts";
import { linkFile, nameEntry, O_TMPFILE, openNamed } from "./confinement.ts";
import { asEntry, ensureFolder, FILE_MODE, ownerOf, placeOf } from "./entries.ts";
import { quotedPath } from "./entry-fault.ts";

const CONTENT_PIECE_BYTES = 256 * 1024;
/** How much of a rejected upload is read on: a client that is cut off while sending does not see the error. */
const CONTENT_REFUSED_MAX_BYTES = 64 * 1024 * 1024;

const PERMISSIONS = 0o7777;
const UNBUFFERED = { highWaterMark: 0 };
const readBytes = promisify(readDescriptor);

/** Returns the file's current size and content. The stream breaks off if the file shrinks meanwhile. */
export async function readFile(path: string): Promise<{ bytes: number; content: ReadableStream<Uint8Array> }> {
  using named = await nameEntry(path);
  requireFile(path, named.stats);
  const fd = openNamed(named.fd);
  const bytes = fstatSync(fd).size;
  return { bytes, content: streamOf(fd, bytes) };
}

/** An unnamed file takes the path when it is complete: no reader sees a part, and a kill leaves nothing. */
export async function writeFile(
  path: string,
  options: EntryOptions,
  content: ReadableStream<Uint8Array> | null,
): Promise<VolumeEntry> {
  if (path === "/") throw new Fault(400, "the root of a volume is a directory");
  try {
    if (options.force) await ensureFolder(join(path, ".."), options);
    const { folder, name } = await placeOf(path);
    const before = await lstat(folder + name).catch(() => undefined);
    if (before !== undefined) {
      requireFile(path, before);
      if (!options.force) throw Object.assign(new Error("it is there"), { code: "EEXIST" });
    }
    await using file = await open(folder, O_TMPFILE | constants.O_RDWR, 0o600);
    for await (const piece of content ?? []) await writeAll(file, piece);
    const owner =
      before === undefined ? ownerOf(options) : { uid: options.uid ?? before.uid, gid: options.gid ?? before.gid };
    await file.chown(owner.uid, owner.gid);
    await file.chmod((options.mode ?? before?.mode ?? FILE_MODE) & PERMISSIONS);
    await file.sync();
    await takePlace(file, folder, name, options.force);
    return await asEntry(path, await file.stat());
  } catch (thrown) {
    await readOn(content);
    throw thrown;
  }
}

/** linkat can only create a free name; to replace a file, it is linked under a temporary name and renamed. */
async function takePlace(file: FileHandle, folder: string, name: string, force: boolean): Promise<void> {
  try {
    return linkFile(file.fd, folder + name);
  } catch (thrown) {
    if (systemCode(thrown) !== "EEXIST" || !force) throw thrown;
  }
  const aside = `${folder}.${crypto.randomUUID()}`;
  linkFile(file.fd, aside);
  try {
    await rename(aside, folder + name);
  } catch (thrown) {
    await unlink(aside).catch(() => undefined);
    throw thrown;
  }
}

async function writeAll(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.length; ) at += (await file.write(piece, at, piece.length - at)).bytesWritten;
}

/** A client in the middle of an upload reads the error only after the rest of its body was taken. */
async function readOn(content: ReadableStream<Uint8Array> | null): Promise<void> {
  if (content === null || content.locked) return;
  let left = CONTENT_REFUSED_MAX_BYTES;
  try {
    for await (const piece of content) {
      left -= piece.length;
      if (left <= 0) return;
    }
  } catch {
    // The client has disconnected.
  }
}

function streamOf(fd: number, bytes: number): ReadableStream<Uint8Array> {
  let at = 0;
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      const piece = Buffer.allocUnsafe(Math.min(CONTENT_PIECE_BYTES, bytes - at));
      const { bytesRead } = piece.length === 0 ? { bytesRead: 0 } : await readBytes(fd, piece, 0, piece.length, at);
      at += bytesRead;
      if (bytesRead > 0) controller.enqueue(piece.subarray(0, bytesRead));
      if (at < bytes && bytesRead > 0) return;
      closeSync(fd);
      if (at < bytes) controller.error(new Error("the file became shorter while it was read"));
      else controller.close();
    },
    cancel() {
      closeSync(fd);
    },
  };
  return new ReadableStream(source, UNBUFFERED);
}

function requireFile(path: string, stats: Stats): void {
  if (stats.isFile()) return;
  throw new Fault(400, `${quotedPath(path)} is ${kindOf(stats)}, not a file`);
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return "a folder";
  if (stats.isFIFO()) return "a pipe";
  if (stats.isSocket()) return "a socket";
  return stats.isSymbolicLink() ? "a symbolic link" : "a device";
}
