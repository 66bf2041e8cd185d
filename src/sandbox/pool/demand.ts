/**
 * How many sandboxes of one template the ready pool should hold: as many as the largest recent burst of creates. That
 * number holds for some minutes and then halves again and again, unless there is another burst.
 */

/** The largest burst, of creates within READY_BURST_MS, counts fully for READY_HELD_MS; then it halves. */
export const READY_BURST_MS = 5_000;
export const READY_HELD_MS = 300_000;
export const READY_HALVED_MS = 300_000;

export class Demand {
  #begun = Number.NEGATIVE_INFINITY;
  #count = 0;
  #largest = 0;
  #largestAt = 0;
  /** A single create does not predict another one. */
  #isLone = true;
  /** The owner of the last create: its team, whose share of the pool this demand uses. */
  owner = "";

  note(owner: string, now: number): void {
    this.owner = owner;
    this.#isLone = this.#left(now) === 0;
    if (Math.abs(now - this.#begun) >= READY_BURST_MS) {
      this.#begun = now;
      this.#count = 0;
    }
    this.#count++;
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

  #left(now: number): number {
    const idleMs = Math.max(0, now - this.#largestAt - READY_HELD_MS);
    return Math.floor(this.#largest * 0.5 ** (idleMs / READY_HALVED_MS));
  }
}
