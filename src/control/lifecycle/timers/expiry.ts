/**
 * Ends or pauses sandboxes on time. One timer is armed for the earliest end; when it fires, one statement takes all
 * sandboxes that are due, so a thousand ends in the same second change state together. The rows are authoritative: a
 * timer that fires too early finds nothing and is armed again.
 */

import type { Background } from "../../../base/background.ts";
import type { Clock, Timer } from "../../../base/clock.ts";
import { described, type Log } from "../../../base/log.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import type { Store } from "../../../store/store.ts";
import { EXPIRY_RETRY_MS, EXPIRY_SLEEP_MAX_MS } from "../../limits.ts";

export interface Expiry {
  /** A running sandbox now ends at `endAt`. Call it after the row has changed. */
  noteEnd(endAt: number): void;
  close(): void;
}

export function createExpiry(services: {
  store: Store;
  clock: Clock;
  log: Log;
  background: Background;
  /** Gets the sandboxes that expiry has moved to `killing` or `pausing`. */
  onTaken(sandboxes: Sandbox[]): void;
}): Expiry {
  const { store, clock, log, background, onTaken } = services;
  let armedFor = Number.POSITIVE_INFINITY;
  let timer: Timer | undefined;
  let closed = false;
  /** Times of failed attempts. The store may have made their changes all the same. */
  const inDoubt = new Set<number>();

  /** Only moves the timer to an earlier time. A later end is found when the timer fires. */
  function arm(at: number): void {
    if (closed || at >= armedFor) return;
    timer?.cancel();
    armedFor = at;
    const delayMs = Math.min(Math.max(0, at - clock.now()), EXPIRY_SLEEP_MAX_MS);
    timer = clock.after(delayMs, () => background.run("expiry failed", takeDue));
  }

  /** Sandboxes that attempts for this time have taken. */
  async function takenFor(now: number): Promise<Sandbox[]> {
    const [pausing, killing] = [await store.sandboxes.inState("pausing"), await store.sandboxes.inState("killing")];
    return [
      ...pausing.filter(({ checkpoint, executionId }) => checkpoint === `${executionId}-${now}`),
      ...killing.filter(({ killWanted, endAt }) => !killWanted && endAt <= now),
    ];
  }

  /** Repeats a failed attempt for the same time, because that time identifies the rows that it took. */
  async function take(): Promise<Sandbox[]> {
    const [again] = inDoubt;
    const now = again ?? clock.now();
    inDoubt.delete(now);
    try {
      const taken = await store.sandboxes.takeDue(now);
      return again === undefined ? taken : await takenFor(now);
    } catch (error) {
      inDoubt.add(now);
      throw error;
    }
  }

  async function takeDue(): Promise<void> {
    armedFor = Number.POSITIVE_INFINITY;
    try {
      const taken = await take();
      if (taken.length > 0) onTaken(taken);
      if (inDoubt.size > 0) arm(clock.now());
      const next = await store.sandboxes.earliestEnd();
      if (next !== undefined) arm(next);
    } catch (error) {
      log.write({
        level: "error",
        event: "expiry could not reach the store and will try again",
        error: described(error),
      });
      arm(clock.now() + EXPIRY_RETRY_MS);
    }
  }

  return {
    noteEnd: arm,
    close() {
      closed = true;
      timer?.cancel();
    },
  };
}
