/** A token bucket: a burst at once, then a steady rate. */
export interface Flow {
  burst: number;
  perSecond: number;
}

export class TokenBucket {
  #level: number;
  #at: number;

  /** Starts full. `now` is in milliseconds of any clock, the same for every call. */
  constructor(
    private readonly flow: Flow,
    now: number,
  ) {
    this.#level = flow.burst;
    this.#at = now;
  }

  /** The amount available at `now`; negative after an overcharge. A clock that goes back changes nothing. */
  level(now: number): number {
    const grown = this.#level + (Math.max(0, now - this.#at) / 1000) * this.flow.perSecond;
    this.#level = Math.min(this.flow.burst, grown);
    this.#at = now;
    return this.#level;
  }

  isFull(now: number): boolean {
    return this.level(now) >= this.flow.burst;
  }

  /** False: too little is left, and nothing is taken. */
  take(amount: number, now: number): boolean {
    if (this.level(now) < amount) return false;
    this.#level -= amount;
    return true;
  }

  /** For what has already arrived. False: it exceeded the level. The debt is at most the burst. */
  charge(amount: number, now: number): boolean {
    this.#level = Math.max(-this.flow.burst, this.level(now) - amount);
    return this.#level >= 0;
  }

  /** Time until the level is reached. */
  msUntil(level: number, now: number): number {
    return Math.max(0, ((level - this.level(now)) / this.flow.perSecond) * 1000);
  }
}
