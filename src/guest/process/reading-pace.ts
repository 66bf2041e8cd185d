/**
 * Distinguishes continuous output from occasional output. A process that prints continuously gets a larger pipe: a pipe
 * of the usual size fills at once, so batching reads would gain nothing.
 */
import { OUTPUT_GATHER_MS } from "../limits.ts";
import { resizePipe } from "./system-calls.ts";

/** Output counts as flowing after this many consecutive reads without a wait. */
export const OUTPUT_FLOWS_AFTER_READS = 16;
/** Output that has flowed before counts as flowing again after this many reads. */
export const OUTPUT_FLOWS_AGAIN_AFTER_READS = 4;
/** Size of a large pipe, and how many processes may have one: a quarter of a user's pipe quota. */
const PIPE_LARGE_BYTES = 1024 * 1024;
export const PIPES_LARGE_MAX = 16;

/** Across all processes, because the kernel limits pipe memory per user. */
let largePipes = 0;

export class ReadingPace implements Disposable {
  readonly #fd: number;
  readonly #nowMs: () => number;
  /** Consecutive reads that did not wait. */
  #streak = 0;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #size: "usual" | "large" | "refused" = "usual";

  constructor(fd: number, nowMs: () => number = () => performance.now()) {
    this.#fd = fd;
    this.#nowMs = nowMs;
  }

  /** Call before a read. */
  noteAsked(): void {
    this.#askedAtMs = this.#nowMs();
  }

  /** Call after a read returned data. */
  noteRead(): void {
    const hasWaited = this.#nowMs() - this.#askedAtMs >= OUTPUT_GATHER_MS;
    this.#streak = hasWaited ? this.#streak >> 1 : Math.min(this.#streak + 1, 2 * OUTPUT_FLOWS_AFTER_READS);
  }

  get isFlowing(): boolean {
    if (this.#size === "large") return this.#streak >= OUTPUT_FLOWS_AGAIN_AFTER_READS;
    return this.#streak >= OUTPUT_FLOWS_AFTER_READS && this.#mayGrow();
  }

  /**
   * Call right before reading a flow, not sooner: a larger pipe is seldom empty. Returns false if the pipe stays small.
   */
  enlarge(): boolean {
    if (this.#mayGrow()) {
      this.#size = resizePipe(this.#fd, PIPE_LARGE_BYTES) ? "large" : "refused";
      if (this.#size === "large") largePipes++;
    }
    return this.#size === "large";
  }

  [Symbol.dispose](): void {
    if (this.#size === "large") largePipes--;
  }

  #mayGrow(): boolean {
    return this.#size === "usual" && largePipes < PIPES_LARGE_MAX;
  }
}
