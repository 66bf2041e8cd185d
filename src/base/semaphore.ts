/**
 * Limits concurrency: a bounded number of holders, the others wait. `using _permit = await permits.acquire()`
 * releases the permit automatically. With named owners, a free permit goes to the owner with the fewest, so that a long
 * queue of one owner does not block the others.
 */
export class Semaphore {
  #free: number;
  readonly #queue: { owner: string; resume: () => void }[] = [];
  readonly #held = new Map<string, number>();

  constructor(permits: number) {
    this.#free = permits;
  }

  async acquire(owner = ""): Promise<Disposable> {
    if (this.#free > 0) this.#take(owner);
    // `#release` takes the permit for the next in the queue, so that no other call can take it in between.
    else await new Promise<void>((resume) => this.#queue.push({ owner, resume }));
    return { [Symbol.dispose]: () => this.#release(owner) };
  }

  #take(owner: string): void {
    this.#free--;
    this.#held.set(owner, this.#permitsOf(owner) + 1);
  }

  #release(owner: string): void {
    this.#free++;
    const left = this.#permitsOf(owner) - 1;
    if (left > 0) this.#held.set(owner, left);
    else this.#held.delete(owner);
    const next = this.#next();
    if (next === undefined) return;
    this.#take(next.owner);
    next.resume();
  }

  #next(): { owner: string; resume: () => void } | undefined {
    let best = 0;
    for (const [at, { owner }] of this.#queue.entries()) {
      if (this.#permitsOf(owner) < this.#permitsOf(this.#queue[best]?.owner ?? "")) best = at;
    }
    return this.#queue.splice(best, 1)[0];
  }

  #permitsOf(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }
}
