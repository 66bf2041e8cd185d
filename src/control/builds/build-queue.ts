/**
 * Which build is next. A bounded number is under way; a place that becomes free goes to the team that has the fewest,
 * then to the one that has waited for the longest since its last. So nobody's long line keeps the others out. Nor does
 * one who came first: a team has no more under way than its share.
 */
interface Waiting {
  id: string;
  team: string;
  /** How many of its team may be under way. */
  share: number;
  work: () => Promise<void>;
}

export class BuildQueue {
  readonly #atOnce: number;
  readonly #line: Waiting[] = [];
  /** How many of each team are under way. */
  readonly #inside = new Map<string, number>();
  /** When each team of the line had its last begun, counted in builds. */
  readonly #lastBegun = new Map<string, number>();
  #begun = 0;
  #under = 0;

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** `work` must not throw. Says whether it has begun at once. */
  add(id: string, { team, share, work }: Omit<Waiting, "id">): boolean {
    this.#line.push({ id, team, share, work });
    this.#beginNext();
    return !this.#line.some((waiting) => waiting.id === id);
  }

  /** False: it does not wait. */
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
    if (this.#under >= this.#atOnce) return;
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
