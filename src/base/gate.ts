/**
 * Limits concurrency: a bounded number may enter, the others wait in a queue. `using place = await gate.enter()` leaves
 * automatically. With named owners, a free place goes to the owner with the fewest places, so that a long queue of one
 * owner does not block the others.
 */
export class Gate {
  #free: number;
  readonly #queue: { owner: string; go: () => void }[] = [];
  readonly #inside = new Map<string, number>();

  constructor(places: number) {
    this.#free = places;
  }

  async enter(owner = ""): Promise<Disposable> {
    if (this.#free > 0) this.#take(owner);
    // `#leave` takes the place for the next in the queue, so that no other call can take it in between.
    else await new Promise<void>((go) => this.#queue.push({ owner, go }));
    return { [Symbol.dispose]: () => this.#leave(owner) };
  }

  #take(owner: string): void {
    this.#free--;
    this.#inside.set(owner, this.#placesOf(owner) + 1);
  }

  #leave(owner: string): void {
    this.#free++;
    const left = this.#placesOf(owner) - 1;
    if (left > 0) this.#inside.set(owner, left);
    else this.#inside.delete(owner);
    const next = this.#next();
    if (next === undefined) return;
    this.#take(next.owner);
    next.go();
  }

  #next(): { owner: string; go: () => void } | undefined {
    let best = 0;
    for (const [at, { owner }] of this.#queue.entries()) {
      if (this.#placesOf(owner) < this.#placesOf(this.#queue[best]?.owner ?? "")) best = at;
    }
    return this.#queue.splice(best, 1)[0];
  }

  #placesOf(owner: string): number {
    return this.#inside.get(owner) ?? 0;
  }
}
