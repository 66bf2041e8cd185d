/**
 * How many sandboxes of one template the ready pool should hold: as many as the largest recent burst of creates. That
 * number holds for some minutes and then halves again and again, unless there is another burst. Counted for each owner,
 * and for all together.
 */
import { READY_OWNERS_MAX } from "./limits.ts";

/**
 * Creates within READY_BURST_MS form a burst. The largest one counts fully for READY_HELD_MS, then halves every
 * READY_HALVED_MS.
 */
export const READY_BURST_MS = 5_000;
export const READY_HELD_MS = 300_000;
export const READY_HALVED_MS = 300_000;

export interface OwnersDemand {
  owner: string;
  count: number;
  lastAt: number;
}

export class Demand {
  readonly #all = new Bursts();
  /** Ordered by last create, oldest first. */
  readonly #owners = new Map<string, Bursts>();

  note(owner: string, now: number): void {
    this.#all.note(now);
    const own = this.#owners.get(owner) ?? new Bursts();
    this.#owners.delete(owner);
    this.#owners.set(owner, own);
    own.note(now);
    const [oldest] = this.#owners.keys();
    if (this.#owners.size > READY_OWNERS_MAX && oldest !== undefined) this.#owners.delete(oldest);
  }

  /** The demand of all owners together. */
  total(now: number): number {
    return this.#all.wanted(now);
  }

  /** Owners with demand, and how much. */
  byOwner(now: number): OwnersDemand[] {
    const each = [...this.#owners].map(([owner, own]) => ({ owner, count: own.wanted(now), lastAt: own.lastAt }));
    return each.filter(({ count }) => count > 0);
  }

  /** Whether all demand has expired. */
  isOver(now: number): boolean {
    return this.#all.isOver(now);
  }
}

class Bursts {
  #begun = Number.NEGATIVE_INFINITY;
  #count = 0;
  #largest = 0;
  #largestAt = 0;
  /** A single create does not predict another one. */
  #isLone = true;
  lastAt = Number.NEGATIVE_INFINITY;

  note(now: number): void {
    this.#isLone = this.#left(now) === 0;
    if (Math.abs(now - this.#begun) >= READY_BURST_MS) {
      this.#begun = now;
      this.#count = 0;
    }
    this.#count++;
    this.lastAt = now;
    if (this.#count < this.#left(now)) return;
    this.#largest = this.#count;
    this.#largestAt = now;
  }

  wanted(now: number): number {
    return this.#isLone ? 0 : this.#left(now);
  }

  isOver(now: number): boolean {
    return this.#left(now) === 0;
  }

  /** What remains of the largest burst. */
  #left(now: number): number {
    const idleMs = Math.max(0, now - this.#largestAt - READY_HELD_MS);
    return Math.floor(this.#largest * 0.5 ** (idleMs / READY_HALVED_MS));
  }
}
