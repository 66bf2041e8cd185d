/** Reads a hostile tar or gzipped tar by entries: one of them in memory, and its expanded size bounded. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract } from "tar-stream";
import { errorMessage } from "../../base/error-message.ts";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { quote } from "../system/quote.ts";

const UNPACK_READ_BYTES = 256 * 1024;
const GZIP_MAGIC = [0x1f, 0x8b];
const BLOCK_BYTES = 512;

export interface ArchiveEntry {
  header: EntryHeader;
  content: AsyncIterable<Uint8Array>;
}

/** The header as it stands in the archive, unchecked. */
export interface EntryHeader {
  name: string;
  /** Null for a kind that has no name. */
  type: string | null;
  linkname: string | null;
  size: number;
  mode: number;
  mtime: Date;
  pax: Record<string, string> | null;
}

/** A fault in the archive itself, worded for the client that uploaded it. */
export function refused(why: string, cause?: unknown): Fault {
  return new Fault(400, `the archive is refused: ${why}`, { cause });
}

export class Archive implements AsyncDisposable {
  private constructor(
    private readonly file: FileHandle,
    private readonly isGzip: boolean,
  ) {}

  static async open(path: string): Promise<Archive> {
    // A tenant may have replaced the file by a named pipe; without O_NONBLOCK, opening it would hang.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const file = await open(path, flags).catch((cause: unknown) => {
      throw new Fault(400, `the archive ${quote(path)} cannot be opened (${systemCode(cause)})`, { cause });
    });
    try {
      if (!(await file.stat()).isFile()) throw new Fault(400, `the archive ${quote(path)} is not a plain file`);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(GZIP_MAGIC.length), 0, GZIP_MAGIC.length, 0);
      return new Archive(file, bytesRead === GZIP_MAGIC.length && GZIP_MAGIC.every((byte, at) => buffer[at] === byte));
    } catch (thrown) {
      await file.close();
      throw thrown;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
  }

  /** Reads from the beginning on each call. `visit` may read only a part of an entry; the rest is skipped. */
  async each(maxBytes: number, visit: (entry: ArchiveEntry) => Promise<void>): Promise<void> {
    const entries = extract();
    const bounded = bound(maxBytes);
    const source = this.#bytes.bind(this);
    const fed = this.isGzip ? pipeline(source, createGunzip(), bounded, entries) : pipeline(source, bounded, entries);
    try {
      // The loop below reports the same failure.
      fed.catch(() => undefined);
      for await (const entry of entries) {
        await visit({ header: entry.header as EntryHeader, content: entry as AsyncIterable<Uint8Array> });
        entry.resume();
      }
      await fed;
    } catch (thrown) {
      entries.destroy();
      await fed.catch(() => undefined);
      throw thrown instanceof Fault ? thrown : refused(describe(thrown), thrown);
    }
  }

  async *#bytes(): AsyncGenerator<Buffer> {
    for (let at = 0; ; ) {
      const { buffer, bytesRead } = await this.file.read(Buffer.alloc(UNPACK_READ_BYTES), 0, UNPACK_READ_BYTES, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }
}

/** Passes on at most `maxBytes`, and requires the empty block that ends every complete archive. */
function bound(maxBytes: number) {
  return async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let total = 0;
    let end: Buffer = Buffer.alloc(0);
    for await (const chunk of source) {
      total += chunk.length;
      if (total > maxBytes) throw refused(`it expands to more than the ${maxBytes} bytes that there is room for`);
      end = chunk.length >= BLOCK_BYTES ? chunk : Buffer.concat([end, chunk]);
      end = end.subarray(Math.max(0, end.length - BLOCK_BYTES));
      yield chunk;
    }
    if (end.length < BLOCK_BYTES || end.some((byte) => byte !== 0)) throw refused("its end is missing");
  };
}

function describe(thrown: unknown): string {
  const code = systemCode(thrown);
  if (code === "Z_BUF_ERROR") return "its end is missing";
  if (code.startsWith("Z_")) return "its compression is damaged";
  const message = errorMessage(thrown);
  if (message === "Unexpected end of data") return "its end is missing";
  if (message.startsWith("Invalid tar header") || message === "Invalid header")
    return "it is damaged, or not a tar file";
  if (message === "Header exceeds max size") return "a name or another text in it is too long";
  return `it cannot be read (${code || message})`;
}
