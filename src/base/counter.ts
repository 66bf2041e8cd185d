/** Counts concurrent operations per key, up to a maximum. */
export class Counter {
  readonly #counts = new Map<string, number>();

  constructor(readonly max: number) {}

  /** False: this key has reached the maximum. */
  add(who: string): boolean {
    const count = this.#counts.get(who) ?? 0;
    if (count >= this.max) return false;
    this.#counts.set(who, count + 1);
    return true;
  }

  remove(who: string): void {
    const count = (this.#counts.get(who) ?? 0) - 1;
    if (count > 0) this.#counts.set(who, count);
    else this.#counts.delete(who);
  }
}
