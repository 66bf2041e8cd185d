/**
 * Tells output that flows from output that comes now and then. A process that prints without a pause gets a larger
 * pipe: without one there is nothing to win, for one of the usual size is full in no time.
 */
import { OUTPUT_GATHER_MS } from "../limits.ts";
import { resizePipe } from "./system-calls.ts";

/** The output of a process flows when it was read so often without a wait. */
export const OUTPUT_FLOWS_AFTER_READS = 16;
/** One that has flowed before does so again after so many. */
export const OUTPUT_FLOWS_AGAIN_AFTER_READS = 4;
/** What fits into that pipe, and how many processes have one: a quarter of what a user may have in pipes. */
const PIPE_LARGE_BYTES = 1024 * 1024;
export const PIPES_LARGE_MAX = 16;

/** Of all processes together: the kernel lets a user have only so much in pipes. */
let largePipes = 0;

export class ReadingPace implements Disposable {
  readonly #fd: number;
  readonly #nowMs: () => number;
  /** Reads in a row that did not have to wait. */
  #streak = 0;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #size: "usual" | "large" | "refused" = "usual";

  constructor(fd: number, nowMs: () => number = () => performance.now()) {
    this.#fd = fd;
    this.#nowMs = nowMs;
  }

  /** To be called before a read. */
  noteAsked(): void {
    this.#askedAtMs = this.#nowMs();
  }

  /** To be called when something was read. */
  noteRead(): void {
    const hasWaited = this.#nowMs() - this.#askedAtMs >= OUTPUT_GATHER_MS;
    this.#streak = hasWaited ? this.#streak >> 1 : Math.min(this.#streak + 1, 2 * OUTPUT_FLOWS_AFTER_READS);
  }

  get isFlowing(): boolean {
    if (this.#size === "large") return this.#streak >= OUTPUT_FLOWS_AGAIN_AFTER_READS;
    return this.#streak >= OUTPUT_FLOWS_AFTER_READS && this.#mayGrow();
  }

  /** To be called before a flow is read, and not sooner: a larger pipe is seldom empty. False: there is none. */
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
