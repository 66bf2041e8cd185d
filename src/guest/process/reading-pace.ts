/** Distinguishes continuous from occasional output. Continuous output gets a larger pipe. */
import { OUTPUT_GATHER_MS } from "../limits.ts";
import { resizePipe } from "./system-calls.ts";

/** Output counts as flowing after this many reads without a wait. */
export const OUTPUT_FLOWS_AFTER_READS = 16;
/** Size of a large pipe, and how many processes may have one: a quarter of a user's pipe quota. */
const PIPE_LARGE_BYTES = 1024 * 1024;
export const PIPES_LARGE_MAX = 16;

/** Across all processes, because the kernel limits pipe memory per user. */
let largePipes = 0;

export class ReadingPace implements Disposable {
  /** Reads that did not wait. A wait halves the number: on a busy machine every reader waits now and then. */
  #streak = 0;
  #askedAtMs = 0;
  #isLarge = false;

  constructor(private readonly fd: number) {}

  get isFlowing(): boolean {
    return this.#streak >= OUTPUT_FLOWS_AFTER_READS;
  }

  /** Call before a read. */
  noteAsked(): void {
    this.#askedAtMs = performance.now();
  }

  /** Call after a read returned data. */
  noteRead(): void {
    const hasWaited = performance.now() - this.#askedAtMs >= OUTPUT_GATHER_MS;
    this.#streak = hasWaited ? this.#streak >> 1 : Math.min(this.#streak + 1, 2 * OUTPUT_FLOWS_AFTER_READS);
  }

  /** Call right before reading a flow, not sooner: a larger pipe is seldom empty. */
  enlarge(): void {
    if (this.#isLarge || largePipes >= PIPES_LARGE_MAX) return;
    this.#isLarge = resizePipe(this.fd, PIPE_LARGE_BYTES);
    if (this.#isLarge) largePipes++;
  }

  [Symbol.dispose](): void {
    if (this.#isLarge) largePipes--;
  }
}
