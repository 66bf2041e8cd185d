/**
 * Blobs in a folder. A blob is written to `incoming` and renamed into `whole` once all of it is on the disk. So a named
 * blob is complete, even after a crash at any moment; the next open removes what a crash left in `incoming`. Only one
 * server may use the folder.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs, unlink, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../base/clock.ts";
import { systemCode } from "../base/system-code.ts";
import { Fault } from "../contract/fault.ts";
import type { Blobs, StoredBlob } from "./blobs.ts";

/** Names have parts of `[a-z0-9_-]`, separated by slashes, so that no name leads out of a folder. */
const BLOB_NAME_MAX_CHARS = 256;
const NAME = /^[a-z0-9_-]+(?:\/[a-z0-9_-]+)*$/;
/** Bytes of a blob in memory while it is read. */
const BLOB_READ_BYTES = 256 * 1024;
/** Free space that stays on the disk for the store and the sandboxes, and the bytes between checks of it. */
const BLOB_DISK_FREE_MIN_BYTES = 1024 ** 3;
const BLOB_DISK_CHECK_BYTES = 16 * 1024 * 1024;

export class FolderBlobs implements Blobs {
  readonly #incoming: string;
  readonly #whole: string;

  private constructor(
    folder: string,
    private readonly clock: Clock,
    private readonly freeMinBytes: number,
  ) {
    this.#incoming = join(folder, "incoming");
    this.#whole = join(folder, "whole");
  }

  /** No put leaves less free space on the disk than `freeMinBytes`. */
  static async open(
    folder: string,
    clock: Clock,
    freeMinBytes: number = BLOB_DISK_FREE_MIN_BYTES,
  ): Promise<FolderBlobs> {
    const blobs = new FolderBlobs(folder, clock, freeMinBytes);
    await rm(blobs.#incoming, { recursive: true, force: true });
    for (const each of [blobs.#incoming, blobs.#whole]) await mkdir(each, { recursive: true, mode: 0o700 });
    return blobs;
  }

  async put(name: string, content: ReadableStream<Uint8Array>, maxBytes: number): Promise<number> {
    const target = this.#pathOf(name);
    const aside = join(this.#incoming, randomUUID());
    try {
      const bytes = await writeDurably(aside, content, maxBytes, this.freeMinBytes);
      await this.#makeFolder(dirname(target));
      await this.#stamp(aside);
      await rename(aside, target);
      await flush(dirname(target));
      return bytes;
    } catch (error) {
      await unlink(aside).catch(() => undefined);
      throw isFull(error) ? full(error) : error;
    }
  }

  async find(name: string): Promise<StoredBlob | undefined> {
    const found = await unlessMissing(stat(this.#pathOf(name)));
    return found?.isFile() ? { name, bytes: found.size, usedAt: Math.round(found.mtimeMs) } : undefined;
  }

  async touch(name: string): Promise<boolean> {
    if ((await this.find(name)) === undefined) return false;
    return (await unlessMissing(this.#stamp(this.#pathOf(name)).then(() => true))) ?? false;
  }

  async open(name: string): Promise<ReadableStream<Uint8Array>> {
    const handle = await unlessMissing(open(this.#pathOf(name), "r"));
    if (handle === undefined || !(await handle.stat()).isFile()) {
      await handle?.close();
      throw new Fault(404, `there is no blob "${name}"`);
    }
    return streamOf(handle);
  }

  async remove(name: string): Promise<void> {
    await unlessMissing(unlink(this.#pathOf(name)));
  }

  async removeFolder(folder: string): Promise<void> {
    await rm(this.#pathOf(folder), { recursive: true, force: true });
  }

  async list(folder: string): Promise<StoredBlob[]> {
    const below = folder === "" ? "" : `${checkedBlobName(folder.replace(/\/$/, ""))}/`;
    const entries = await unlessMissing(readdir(join(this.#whole, below), { recursive: true, withFileTypes: true }));
    const names = (entries ?? [])
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(this.#whole.length + 1));
    const found = await Promise.all(names.sort().map((name) => this.find(name)));
    return found.filter((blob) => blob !== undefined);
  }

  #pathOf(name: string): string {
    return join(this.#whole, checkedBlobName(name));
  }

  #stamp(path: string): Promise<void> {
    const now = this.clock.now() / 1000;
    return utimes(path, now, now);
  }

  /** Each folder is durable before a blob is in it. */
  async #makeFolder(folder: string): Promise<void> {
    const first = await mkdir(folder, { recursive: true, mode: 0o700 });
    if (first === undefined) return;
    for (let made = folder; made.length >= first.length; made = dirname(made)) await flush(dirname(made));
  }
}

async function writeDurably(
  path: string,
  content: ReadableStream<Uint8Array>,
  maxBytes: number,
  freeMinBytes: number,
): Promise<number> {
  await using handle = await open(path, "wx", 0o600);
  let bytes = 0;
  let lookAt = 0;
  // Leaving the loop cancels the stream, so the rest is not read.
  for await (const chunk of content) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Fault(413, `the content is larger than ${maxBytes} bytes`);
    if (bytes >= lookAt) {
      await requireRoom(path, freeMinBytes);
      lookAt = bytes + BLOB_DISK_CHECK_BYTES;
    }
    await writeAll(handle, chunk);
  }
  await handle.sync();
  return bytes;
}

/** A completely full disk would stop the whole server; an upload can be retried. */
async function requireRoom(path: string, freeMinBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < freeMinBytes) throw full();
}

function full(cause?: unknown): Fault {
  return new Fault(507, "the disk of the server is full; try again later", { cause });
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let done = 0; done < chunk.length; ) done += (await handle.write(chunk, done)).bytesWritten;
}

async function flush(folder: string): Promise<void> {
  await using handle = await open(folder, "r");
  await handle.sync();
}

function streamOf(handle: FileHandle): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { bytesRead, buffer } = await handle.read(new Uint8Array(BLOB_READ_BYTES), 0, BLOB_READ_BYTES, null);
          if (bytesRead > 0) return controller.enqueue(buffer.subarray(0, bytesRead));
        } catch (error) {
          await handle.close();
          throw error;
        }
        await handle.close();
        controller.close();
      },
      cancel: () => handle.close(),
    },
    { highWaterMark: 0 },
  );
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    const code = systemCode(error);
    // A folder in place of a blob, or a blob in place of a folder, counts as missing.
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return undefined;
    throw error;
  }
}

function isFull(error: unknown): boolean {
  return systemCode(error) === "ENOSPC" || systemCode(error) === "EDQUOT";
}

function checkedBlobName(name: string): string {
  if (name.length > BLOB_NAME_MAX_CHARS || !NAME.test(name)) {
    const shown = JSON.stringify(name.slice(0, BLOB_NAME_MAX_CHARS));
    throw new Fault(
      400,
      `${shown} is not a blob name; it must have parts of a-z, 0-9, - and _, with slashes between them`,
    );
  }
  return name;
}
