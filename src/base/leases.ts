/**
 * What somebody needs at the moment, by name. Whoever looks for what nobody needs takes his time; what was needed in
 * any moment of it counts.
 */
export class Leases {
  /** How many hold each one. */
  readonly #held = new Map<string, number>();
  readonly #watches = new Set<Set<string>>();

  /** Until it is disposed of, this one is held; it need not be there yet. */
  hold(name: string): Disposable {
    this.#held.set(name, (this.#held.get(name) ?? 0) + 1);
    for (const seen of this.#watches) seen.add(name);
    return {
      [Symbol.dispose]: () => {
        const others = (this.#held.get(name) ?? 1) - 1;
        if (others > 0) this.#held.set(name, others);
        else this.#held.delete(name);
      },
    };
  }

  /** What is held from now on, until it is disposed of. */
  watch(): Disposable & { seen: ReadonlySet<string> } {
    const seen = new Set(this.#held.keys());
    this.#watches.add(seen);
    return { seen, [Symbol.dispose]: () => this.#watches.delete(seen) };
  }
}
