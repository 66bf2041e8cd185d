/**
 * Holds ksmd below its share of a processor. ksmd works in steps of some pages and sleeps between them; this class sets
 * the sleep by the processor time that a step takes.
 */

const SLEEP_MIN_MS = 2;
const SLEEP_MAX_MS = 5_000;

interface KsmdCounts {
  /** Processor time of ksmd. */
  cpuMs: number;
  pages: number;
  pagesPerStep: number;
}

export class KsmdShare {
  #last: KsmdCounts | undefined;

  constructor(private readonly maxPercent: number) {}

  /** How long ksmd sleeps after each step from now on. Undefined: as before, for it has ended no step since. */
  sleepMs(now: KsmdCounts): number | undefined {
    const last = this.#last;
    if (last === undefined) {
      this.#last = now;
      return undefined;
    }
    const steps = (now.pages - last.pages) / now.pagesPerStep;
    if (steps < 1) return undefined;
    this.#last = now;
    const stepMs = (now.cpuMs - last.cpuMs) / steps;
    const sleepMs = Math.ceil((stepMs * (100 - this.maxPercent)) / this.maxPercent);
    return Math.min(Math.max(sleepMs, SLEEP_MIN_MS), SLEEP_MAX_MS);
  }
}
