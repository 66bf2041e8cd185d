/**
 * Delays background work until no caller is waiting for foreground work, at most for a given time: on busy processors
 * each would slow the other.
 */
import { setImmediate } from "node:timers/promises";
import type { Clock } from "./clock.ts";

export class QuietPeriod {
  #underWay = 0;
  #over: PromiseWithResolvers<void> | undefined;

  /** No background work is delayed for longer than `maxMs`. */
  constructor(
    private readonly clock: Pick<Clock, "after">,
    private readonly maxMs: number,
  ) {}

  /** Foreground work, which a caller waits for. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#underWay++;
    this.#over ??= Promise.withResolvers<void>();
    try {
      return await work();
    } finally {
      this.#underWay--;
      if (this.#underWay === 0) {
        this.#over.resolve();
        this.#over = undefined;
      }
    }
  }

  /** Resolves when background work may run. Callers that are waiting get their result first. */
  async wait(): Promise<void> {
    const late = Promise.withResolvers<void>();
    let isLate = false;
    const timer = this.clock.after(this.maxMs, () => {
      isLate = true;
      late.resolve();
    });
    await setImmediate();
    while (this.#over !== undefined && !isLate) {
      await Promise.race([this.#over.promise, late.promise]);
      await setImmediate();
    }
    timer.cancel();
  }
}
