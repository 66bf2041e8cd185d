/**
 * Writes pieces to a file in order, one system call at a time. Pieces that arrive during a call are written together by
 * the next one, so the reader continues and there are fewer calls than pieces.
 *
 * `fs.createWriteStream` with `pipeline` does the same but costs more: an upload of 256 MiB took 580 and 590 ms of the
 * guest's CPU time with it, 380 and 390 ms with this class, measured alternately.
 */
import type { FileHandle } from "node:fs/promises";
import { discard } from "../system/garbage.ts";

/** Maximum bytes of one upload that wait for a running write; above it, the client is held back. */
export const UPLOAD_WAITING_MAX_BYTES = 512 * 1024;
/** Cost of each waiting piece besides its bytes, because a multipart body may consist of tiny pieces. */
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

  /** Takes ownership of the piece. Resolves when there is room for the next; throws if a write failed. */
  async take(piece: Uint8Array): Promise<void> {
    this.#throwIfFailed();
    this.#waiting.push(piece);
    this.#waitingBytes += piece.length + UPLOAD_PIECE_OVERHEAD_BYTES;
    this.#writing ??= this.#write();
    while (this.#waitingBytes >= UPLOAD_WAITING_MAX_BYTES && this.#writing !== undefined) await this.#writing;
    this.#throwIfFailed();
  }

  /** Resolves when everything is written; throws if a write failed. */
  async finish(): Promise<void> {
    await this.settle();
    this.#throwIfFailed();
  }

  /** Resolves when no write is running, whether or not it failed. */
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

/** Repeats, because the kernel may take only a part. */
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
