/**
 * Names that are in use. A sweep for unused names takes time, so a watch collects every name used at any time during
 * it.
 */
export class Leases {
  /** Number of holders per name. */
  readonly #held = new Map<string, number>();
  readonly #watches = new Set<Set<string>>();

  /** Holds this name until disposal. What it names need not exist yet. */
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

  /** Collects all names held until disposal. */
  watch(): Disposable & { seen: ReadonlySet<string> } {
    const seen = new Set(this.#held.keys());
    this.#watches.add(seen);
    return { seen, [Symbol.dispose]: () => this.#watches.delete(seen) };
  }
}
