/** How much of something may still come: a burst at once, and a steady flow for good. */
interface Flow {
  burst: number;
  perSecond: number;
}

export class TokenBucket {
  readonly #flow: Flow;
  #level: number;
  #at: number;

  /** Full. `now` is in milliseconds of any clock, the same for every call. */
  constructor(flow: Flow, now: number) {
    this.#flow = flow;
    this.#level = flow.burst;
    this.#at = now;
  }

  /**
   * What may come at `now`; below 0 is what came too much. A clock that goes back adds nothing and takes nothing away.
   */
  level(now: number): number {
    const grown = this.#level + (Math.max(0, now - this.#at) / 1000) * this.#flow.perSecond;
    this.#level = Math.min(this.#flow.burst, grown);
    this.#at = now;
    return this.#level;
  }

  isFull(now: number): boolean {
    return this.level(now) >= this.#flow.burst;
  }

  /** False: there is not so much left, and nothing is taken. */
  take(amount: number, now: number): boolean {
    if (this.level(now) < amount) return false;
    this.#level -= amount;
    return true;
  }

  /** For what has come already. False: it is more than was left. The debt is never more than the burst. */
  charge(amount: number, now: number): boolean {
    this.#level = Math.max(-this.#flow.burst, this.level(now) - amount);
    return this.#level >= 0;
  }

  /** How long until there is so much. */
  msUntil(level: number, now: number): number {
    return Math.max(0, ((level - this.level(now)) / this.#flow.perSecond) * 1000);
  }
}
