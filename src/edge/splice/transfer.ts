/** One transfer: bytes from one connection to another, through a pipe. */
import { CHUNK_LINES_MAX_BYTES, chunkAhead } from "../../http1/body.ts";
import type { Order } from "./orders.ts";
import { EAGAIN, ECONNRESET, isHungUp, peek, splice } from "./system-calls.ts";

/** Pipe size of one splice: pages that the kernel holds. All processes together stay within a user's limit. */
export const SPLICE_PIPE_BYTES = 512 * 1024;
/** Bytes of one transfer before others get their turn. */
const SPLICE_TURN_BYTES = 4 * 1024 * 1024;
/** Many shorter chunks go back to the HTTP reader, which takes many of them at once; a longer one makes up for some. */
const SPLICE_CHUNK_MIN_BYTES = 16 * 1024;
export const SPLICE_SHORT_CHUNKS_MAX = 64;

const ahead = new Uint8Array(CHUNK_LINES_MAX_BYTES);

export class Transfer {
  /** Bytes to move. Each following chunk adds its content and the lines before it, which pass unchanged. */
  #bytes: number;
  #grows: boolean;
  #shortChunks = SPLICE_SHORT_CHUNKS_MAX;
  #movedMs = performance.now();
  taken = 0;
  inPipe = 0;
  /** As far as known: the kernel reports the change, not the state. */
  isReadable = true;
  isWritable = true;
  error = 0;
  #hasEnded = false;

  constructor(
    readonly order: Order,
    readonly pipe: readonly [read: number, write: number],
  ) {
    this.#bytes = order.bytes;
    this.#grows = order.inChunks;
  }

  get isOver(): boolean {
    return this.error !== 0 || (this.inPipe === 0 && (this.#hasEnded || (this.isWhole && !this.#grows)));
  }

  get isWhole(): boolean {
    return this.inPipe === 0 && this.taken === this.#bytes;
  }

  /** Whether it has waited for another chunk since then. */
  isSilentSince(ms: number): boolean {
    return this.#grows && this.isWhole && this.#movedMs <= ms;
  }

  /** Moves what it can. True: there may be more, but other transfers get their turn first. */
  turn(): boolean {
    for (let moved = 0; moved < SPLICE_TURN_BYTES; ) {
      const step = this.#take() + this.#give();
      if (step === 0 || this.isOver) return false;
      moved += step;
    }
    return true;
  }

  #take(): number {
    if (!this.isReadable || this.#hasEnded) return 0;
    if (this.taken === this.#bytes && this.#grows) this.#grow();
    const room = Math.min(this.#bytes - this.taken, SPLICE_PIPE_BYTES - this.inPipe);
    if (room <= 0) return 0;
    const taken = splice(this.order.from, this.pipe[1], room);
    if (taken > 0) {
      this.#movedMs = performance.now();
      this.taken += taken;
      this.inPipe += taken;
      // Its owner also reads from a connection that is reset: bytes before these may be missing.
      if (isHungUp(this.order.from)) this.error = ECONNRESET;
      return taken;
    }
    if (taken === 0) this.#hasEnded = true;
    // With bytes in the pipe, the pipe may be what is full.
    else if (taken === -EAGAIN) this.isReadable = this.inPipe > 0;
    else this.error = -taken;
    return 0;
  }

  /** Adds the next chunk if it is a plain, long one. */
  #grow(): void {
    const seen = peek(this.order.from, ahead);
    const next = seen > 0 ? chunkAhead(ahead.subarray(0, seen)) : undefined;
    if (next === undefined) {
      this.isReadable = false;
      // The owner handles an ended connection.
      if (seen <= 0 && seen !== -EAGAIN) this.#grows = false;
      return;
    }
    const made = next / SPLICE_CHUNK_MIN_BYTES - 1;
    this.#shortChunks = Math.min(this.#shortChunks + made, SPLICE_SHORT_CHUNKS_MAX);
    if (next === 0 || this.#shortChunks < 0) this.#grows = false;
    else this.#bytes += next;
  }

  #give(): number {
    if (this.inPipe === 0 || !this.isWritable || this.error !== 0) return 0;
    const given = splice(this.pipe[0], this.order.to, this.inPipe);
    if (given >= 0) {
      this.inPipe -= given;
      return given;
    }
    if (given === -EAGAIN) this.isWritable = false;
    else this.error = -given;
    return 0;
  }
}
