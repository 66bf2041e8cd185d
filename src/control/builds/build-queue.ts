/**
 * Schedules builds fairly. A bounded number runs at once. A free place goes to the team with the fewest running builds,
 * then to the team whose last build began longest ago, so a long queue of one team does not block others. A team never
 * runs more builds than its share.
 */
interface Waiting {
  id: string;
  team: string;
  /** Concurrent builds allowed for its team. */
  share: number;
  work: () => Promise<void>;
}

export class BuildQueue {
  readonly #queue: Waiting[] = [];
  readonly #running = new Set<Waiting>();
  /** Per team: the sequence number of the last build that began. */
  readonly #lastBegun = new Map<string, number>();
  #begun = 0;

  constructor(private readonly atOnce: number) {}

  /** `work` must not throw. Returns whether it began at once. */
  add(id: string, { team, share, work }: Omit<Waiting, "id">): boolean {
    this.#queue.push({ id, team, share, work });
    this.#beginNext();
    return !this.#queue.some((waiting) => waiting.id === id);
  }

  /** False: it is not in the queue. */
  remove(id: string): boolean {
    const at = this.#queue.findIndex((waiting) => waiting.id === id);
    if (at < 0) return false;
    this.#queue.splice(at, 1);
    return true;
  }

  waitingOf(team: string): number {
    return this.#queue.filter((waiting) => waiting.team === team).length;
  }

  #beginNext(): void {
    const next = this.#running.size < this.atOnce ? this.#next() : undefined;
    if (next === undefined) return;
    this.remove(next.id);
    this.#running.add(next);
    this.#lastBegun.set(next.team, ++this.#begun);
    void next.work().finally(() => {
      this.#running.delete(next);
      if (this.#runningOf(next.team) + this.waitingOf(next.team) === 0) this.#lastBegun.delete(next.team);
      this.#beginNext();
    });
  }

  /** The first in the line among equals. */
  #next(): Waiting | undefined {
    const able = this.#queue.filter(({ team, share }) => this.#runningOf(team) < share);
    const last = (team: string) => this.#lastBegun.get(team) ?? 0;
    const order = (a: string, b: string) => this.#runningOf(a) - this.#runningOf(b) || last(a) - last(b);
    return able.toSorted((a, b) => order(a.team, b.team))[0];
  }

  #runningOf(team: string): number {
    return [...this.#running].filter((build) => build.team === team).length;
  }
}
