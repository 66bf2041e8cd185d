/**
 * When to do what nobody waits for: while nothing is under way that somebody waits for, or after a while in any case.
 * On busy processors each would only make the other late.
 */
import { setImmediate } from "node:timers/promises";
import type { Clock } from "./clock.ts";

export class QuietPeriod {
  readonly #clock: Pick<Clock, "after">;
  readonly #maxMs: number;
  #underWay = 0;
  #over: PromiseWithResolvers<void> | undefined;

  /** Nobody is put off for longer than `maxMs`. */
  constructor(clock: Pick<Clock, "after">, maxMs: number) {
    this.#clock = clock;
    this.#maxMs = maxMs;
  }

  /** Work that somebody waits for. */
  async during<Result>(work: () => Promise<Result>): Promise<Result> {
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

  /** Resolves when it is time for something else; whoever waits for an answer has it first. */
  async come(): Promise<void> {
    const late = Promise.withResolvers<void>();
    let isLate = false;
    const timer = this.#clock.after(this.#maxMs, () => {
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
