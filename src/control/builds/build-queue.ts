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
  readonly #line: Waiting[] = [];
  /** Running builds per team. */
  readonly #inside = new Map<string, number>();
  /** Per team: the sequence number of the last build that began. */
  readonly #lastBegun = new Map<string, number>();
  #begun = 0;
  #under = 0;

  constructor(private readonly atOnce: number) {}

  /** `work` must not throw. Returns whether it began at once. */
  add(id: string, { team, share, work }: Omit<Waiting, "id">): boolean {
    this.#line.push({ id, team, share, work });
    this.#beginNext();
    return !this.#line.some((waiting) => waiting.id === id);
  }

  /** False: it is not in the queue. */
  remove(id: string): boolean {
    const at = this.#line.findIndex((waiting) => waiting.id === id);
    if (at < 0) return false;
    this.#line.splice(at, 1);
    return true;
  }

  waitingOf(team: string): number {
    return this.#line.filter((waiting) => waiting.team === team).length;
  }

  #beginNext(): void {
    if (this.#under >= this.atOnce) return;
    const next = this.#next();
    if (next === undefined) return;
    this.#under++;
    this.#inside.set(next.team, this.#insideOf(next.team) + 1);
    this.#lastBegun.set(next.team, ++this.#begun);
    void next.work().finally(() => {
      this.#under--;
      const left = this.#insideOf(next.team) - 1;
      if (left > 0) this.#inside.set(next.team, left);
      else this.#inside.delete(next.team);
      if (left === 0 && this.waitingOf(next.team) === 0) this.#lastBegun.delete(next.team);
      this.#beginNext();
    });
  }

  #next(): Waiting | undefined {
    const rank = ({ team }: Waiting) => [this.#insideOf(team), this.#lastBegun.get(team) ?? 0] as const;
    let best: Waiting | undefined;
    for (const waiting of this.#line) {
      const [inside, last] = rank(waiting);
      if (inside >= waiting.share) continue;
      const [bestInside, bestLast] = best === undefined ? [Number.POSITIVE_INFINITY, 0] : rank(best);
      if (inside < bestInside || (inside === bestInside && last < bestLast)) best = waiting;
    }
    if (best !== undefined) this.remove(best.id);
    return best;
  }

  #insideOf(team: string): number {
    return this.#inside.get(team) ?? 0;
  }
}
