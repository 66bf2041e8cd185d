/**
 * Writes pieces to a file in their order, one system call at a time. Pieces that arrive during a call wait and go out
 * together with the next: the reader goes on, and there are fewer calls than pieces.
 *
 * Not `fs.createWriteStream` with `pipeline`, which does the same: an upload of 256 MiB took 580 and 590 ms of the
 * guest's processor time with it, 380 and 390 with this, in turns.
 */
import type { FileHandle } from "node:fs/promises";
import { discard } from "../system/garbage.ts";

/** Of one upload, while others of its bytes are being written; above it, the client is held back. */
export const UPLOAD_WAITING_MAX_BYTES = 512 * 1024;
/** Counted for each piece that waits besides its bytes: a body of many parts may consist of tiny ones. */
export const UPLOAD_PIECE_OVERHEAD_BYTES = 128;

export class GatheredWrites {
  readonly #file: FileHandle;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  /** Never rejects. */
  #writing: Promise<void> | undefined;
  #failure: { thrown: unknown } | undefined;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The piece is the file's from now on. Resolves when there is room for the next; throws when one was not written. */
  async take(piece: Uint8Array): Promise<void> {
    this.#throwIfFailed();
    this.#waiting.push(piece);
    this.#waitingBytes += piece.length + UPLOAD_PIECE_OVERHEAD_BYTES;
    this.#writing ??= this.#write();
    while (this.#waitingBytes >= UPLOAD_WAITING_MAX_BYTES && this.#writing !== undefined) await this.#writing;
    this.#throwIfFailed();
  }

  /** Resolves when all is written, and throws when it is not. */
  async finish(): Promise<void> {
    await this.settle();
    this.#throwIfFailed();
  }

  /** Resolves when nothing is under way any more, however it went. */
  async settle(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  #throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.thrown;
  }

  async #write(): Promise<void> {
    const pieces = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    try {
      await writeAll(this.#file, pieces);
      for (const piece of pieces) discard(piece);
    } catch (thrown) {
      this.#failure = { thrown };
      this.#waiting = [];
      this.#waitingBytes = 0;
    }
    this.#writing = this.#waiting.length > 0 ? this.#write() : undefined;
  }
}

/** The kernel may take less than all. */
async function writeAll(file: FileHandle, pieces: readonly Uint8Array[]): Promise<void> {
  let left = pieces.filter(({ length }) => length > 0);
  while (left.length > 0) {
    const [first, ...others] = left;
    if (first === undefined) return;
    const { bytesWritten } = others.length === 0 ? await file.write(first) : await file.writev(left);
    left = behind(left, bytesWritten);
  }
}

function behind(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let skipped = bytes;
  let at = 0;
  for (; at < pieces.length && skipped >= (pieces[at]?.length ?? 0); at += 1) skipped -= pieces[at]?.length ?? 0;
  const rest = pieces.slice(at);
  const [first] = rest;
  if (first !== undefined && skipped > 0) rest[0] = first.subarray(skipped);
  return rest;
}
