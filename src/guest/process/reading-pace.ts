/**
 * How eagerly the output of a process is read. What comes now and then is read at once. A process that prints without a
 * pause would wake its reader for every few kilobytes, which costs more than all that is done with them: its pipe is
 * made larger, and once it is nearly empty it is left to fill for a moment.
 */
import {
  OUTPUT_GATHER_MS,
  OUTPUT_GATHERED_AFTER_READS,
  OUTPUT_READ_BYTES,
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
  #readyAtMs = Number.NEGATIVE_INFINITY;
  #size: "usual" | "large" | "refused" = "usual";

  constructor(fd: number, nowMs: () => number = () => performance.now()) {
    this.#fd = fd;
    this.#nowMs = nowMs;
  }

  /** To be called when something was read. */
  noteRead(): void {
    this.#streak = this.#nowMs() - this.#readyAtMs < OUTPUT_GATHER_MS ? this.#streak + 1 : 0;
  }

  /** To be called, and waited for, before the next read. */
  rest(): Promise<void> | undefined {
    const isSteady = this.#streak >= OUTPUT_GATHERED_AFTER_READS && this.#isLarge();
    if (isSteady && waitingInPipe(this.#fd) < OUTPUT_READ_BYTES) return this.#letFill();
    this.#readyAtMs = this.#nowMs();
    return undefined;
  }

  [Symbol.dispose](): void {
    if (this.#size === "large") largePipes--;
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
