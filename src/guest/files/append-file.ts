/**
 * The bytes of one open file put behind those of another, slice by slice through one buffer. Reading and writing wait on other
 * threads. The kernel could copy by itself (copy_file_range), but Bun calls it on the event loop's thread only, where a
 * disk that is busy with earlier writes held up every request of the sandbox for 0.7 s; and with the disk to wait for in the
 * end, it is not faster.
 */
import type { FileHandle } from "node:fs/promises";
import { COMPOSE_SLICE_BYTES } from "../../contract/limits.ts";

/** Reads at the file's position; zero bytes are its end. */
export type ReadSlice = (source: FileHandle, into: Uint8Array) => Promise<number>;

export const readSlice: ReadSlice = async (source, into) => (await source.read(into, 0, into.length, null)).bytesRead;

export class Appender {
  readonly #target: FileHandle;
  readonly #signal: AbortSignal;
  readonly #read: ReadSlice;
  readonly #buffer = new Uint8Array(COMPOSE_SLICE_BYTES);

  constructor(target: FileHandle, signal: AbortSignal, read: ReadSlice = readSlice) {
    this.#target = target;
    this.#signal = signal;
    this.#read = read;
  }

  /**
   * All from the source's position to its end; returns how many bytes it were. A source that grows as it is read is given up
   * one slice beyond what was expected; one of zero bytes may have content all the same (/proc), which only reading shows.
   */
  async append(source: FileHandle, expected: number): Promise<number> {
    let copied = 0;
    while (copied <= expected || expected === 0) {
      this.#signal.throwIfAborted();
      const length = await this.#read(source, this.#buffer);
      if (length === 0) break;
      await this.#write(length);
      copied += length;
    }
    return copied;
  }

  async #write(length: number): Promise<void> {
    for (let at = 0; at < length; ) {
      const { bytesWritten } = await this.#target.write(this.#buffer, at, length - at, null);
      at += bytesWritten;
    }
  }
}
