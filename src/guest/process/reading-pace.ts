/**
 * How eagerly the output of a process is read. What comes now and then is read at once. A process that prints without a
 * pause would wake its reader for every few kilobytes, which costs more than all that is done with them: its pipe is
 * made larger, and once it is nearly empty it is left to fill for a moment.
 */
import {
  OUTPUT_GATHER_MS,
  OUTPUT_GATHERED_AFTER_READS,
  OUTPUT_READ_BYTES,
  OUTPUT_TOGETHER_MAX_BYTES,
  PIPE_LARGE_BYTES,
  PIPES_LARGE_MAX,
} from "../limits.ts";
import { resizePipe, waitingInPipe } from "./system-calls.ts";

/** Of all processes together: the kernel lets a user have only so much in pipes. */
let largePipes = 0;

export class ReadingPace implements Disposable {
  readonly #fd: number;
  readonly #nowMs: () => number;
  /** Reads in a row that did not have to wait. */
  #streak = 0;
  /** What was read since something was handed over. */
  #heldBytes = 0;
  /** After the last read there was as much as is read at once. */
  #hasMuch = false;
  #readyAtMs = Number.NEGATIVE_INFINITY;
  #size: "usual" | "large" | "refused" = "usual";

  constructor(fd: number, nowMs: () => number = () => performance.now()) {
    this.#fd = fd;
    this.#nowMs = nowMs;
  }

  /** To be called when so much was read. */
  noteRead(bytes: number): void {
    const hasWaited = this.#nowMs() - this.#readyAtMs >= OUTPUT_GATHER_MS;
    this.#streak = hasWaited ? this.#streak >> 1 : Math.min(this.#streak + 1, 2 * OUTPUT_GATHERED_AFTER_READS);
    this.#heldBytes += bytes;
    this.#hasMuch = this.#isSteady && this.#looksFull();
  }

  /** More can be read at once, to be handed over together with what was read. Otherwise it is handed over now. */
  get readsOn(): boolean {
    if (!this.#hasMuch || this.#heldBytes >= OUTPUT_TOGETHER_MAX_BYTES) {
      this.#heldBytes = 0;
      return false;
    }
    this.#readyAtMs = this.#nowMs();
    return true;
  }

  /** To be called, and waited for, before the next read, unless it is read on. */
  rest(): Promise<void> | undefined {
    // It may have filled while who listens had no room.
    if (this.#isSteady && !this.#hasMuch && !this.#looksFull()) return this.#letFill();
    this.#readyAtMs = this.#nowMs();
    return undefined;
  }

  [Symbol.dispose](): void {
    if (this.#size === "large") largePipes--;
  }

  get #isSteady(): boolean {
    return this.#streak >= OUTPUT_GATHERED_AFTER_READS && this.#isLarge();
  }

  #looksFull(): boolean {
    return waitingInPipe(this.#fd) >= OUTPUT_READ_BYTES;
  }

  async #letFill(): Promise<void> {
    await Bun.sleep(OUTPUT_GATHER_MS);
    this.#readyAtMs = this.#nowMs();
  }

  /** Without a larger pipe there is nothing to win: one of the usual size is full before the moment is over. */
  #isLarge(): boolean {
    if (this.#size === "usual" && largePipes < PIPES_LARGE_MAX) {
      this.#size = resizePipe(this.#fd, PIPE_LARGE_BYTES) ? "large" : "refused";
      if (this.#size === "large") largePipes++;
    }
    return this.#size === "large";
  }
}
