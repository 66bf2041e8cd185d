/** Counts by name, taken at intervals: what other processes report to the server. The names are those of the code. */
export type CountsByName = Record<string, number>;

export class EventCounts {
  #counts: CountsByName = {};

  add(name: string): void {
    this.#counts[name] = (this.#counts[name] ?? 0) + 1;
  }

  /** The counts since the last call; undefined: none. */
  take(): CountsByName | undefined {
    const counts = this.#counts;
    if (Object.keys(counts).length === 0) return undefined;
    this.#counts = {};
    return counts;
  }
}
