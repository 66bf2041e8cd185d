/** Counts concurrent operations per key, up to a maximum. */
export class KeyedLimit {
  readonly #counts = new Map<string, number>();

  constructor(readonly max: number) {}

  /** False: this key has reached the maximum. */
  add(key: string): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.max) return false;
    this.#counts.set(key, count + 1);
    return true;
  }

  remove(key: string): void {
    const count = (this.#counts.get(key) ?? 0) - 1;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
  }
}
