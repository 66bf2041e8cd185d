/** One transfer: bytes from one connection to another, through a pipe. */
import { EAGAIN, ECONNRESET, isHungUp, splice } from "./calls.ts";
import type { Order } from "./orders.ts";

/** Pipe size of one splice: pages that the kernel holds. All processes together stay within a user's limit. */
export const SPLICE_PIPE_BYTES = 512 * 1024;
/** Bytes of one transfer before others get their turn. */
const SPLICE_TURN_BYTES = 4 * 1024 * 1024;

export class Transfer {
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
  ) {}

  get isOver(): boolean {
    return this.error !== 0 || (this.inPipe === 0 && (this.#hasEnded || this.taken === this.order.bytes));
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
    const room = Math.min(this.order.bytes - this.taken, SPLICE_PIPE_BYTES - this.inPipe);
    if (room <= 0) return 0;
    const taken = splice(this.order.from, this.pipe[1], room);
    if (taken > 0) {
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
