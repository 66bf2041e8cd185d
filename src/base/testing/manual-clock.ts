/** A clock for tests: the test advances the time, and timers run in the order of their times. */
import type { Clock, Timer } from "../clock.ts";

export class ManualClock implements Clock {
  #now: number;
  #timers = new Set<{ at: number; action: () => void }>();

  constructor(now: number) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(delayMs: number, action: () => void): Timer {
    // The same limit as real timers, which fire at once beyond it.
    if (delayMs > 2 ** 31 - 1) throw new Error(`a timer cannot wait ${delayMs} ms`);
    const timer = { at: this.#now + Math.max(0, delayMs), action };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  /** Sets the wall clock: the time of day changes, but no time passes. */
  jump(byMs: number): void {
    this.#now += byMs;
    for (const timer of this.#timers) timer.at += byMs;
  }

  get timers(): number {
    return this.#timers.size;
  }

  /** Advances the time. `settle` is awaited after each timer, so that its work is done before time goes on. */
  async advance(byMs: number, settle: () => Promise<void>): Promise<void> {
    const until = this.#now + byMs;
    for (;;) {
      const next = [...this.#timers].filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.action();
      await settle();
    }
    this.#now = until;
  }
}
