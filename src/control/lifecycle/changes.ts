/**
 * Waits for a sandbox to reach a resting state, without polling. Watch first, then read the row: the watch then sees
 * every change recorded after the read.
 */
import type { Clock } from "../../base/clock.ts";

export class Changes {
  readonly #watches = new Map<string, Set<() => void>>();
  readonly #closing = Promise.withResolvers<false>();

  constructor(private readonly clock: Clock) {}

  /** Call it after the row has changed. */
  note(id: string): void {
    for (const wake of this.#watches.get(id) ?? []) wake();
  }

  /** Ends all waits. */
  close(): void {
    this.#closing.resolve(false);
  }

  watch(id: string): Watch {
    const changed = Promise.withResolvers<true>();
    const wake = () => changed.resolve(true);
    const watches = this.#watches.get(id) ?? new Set();
    this.#watches.set(id, watches.add(wake));
    const clock = this.clock;
    const closing = this.#closing.promise;
    return {
      async within(waitMs) {
        if (waitMs <= 0) return false;
        const late = Promise.withResolvers<false>();
        const timer = clock.after(waitMs, () => late.resolve(false));
        try {
          return await Promise.race([changed.promise, late.promise, closing]);
        } finally {
          timer.cancel();
        }
      },
      [Symbol.dispose]: () => {
        watches.delete(wake);
        if (watches.size === 0 && this.#watches.get(id) === watches) this.#watches.delete(id);
      },
    };
  }
}

interface Watch extends Disposable {
  /** Whether something changed since the watch began, or changes within this time. */
  within(waitMs: number): Promise<boolean>;
}
