/**
 * Serialises work: each piece begins when the previous one has ended, successfully or not, in the order of the calls.
 */
export class OneAtATime {
  #last: Promise<unknown> | undefined;

  get isIdle(): boolean {
    return this.#last === undefined;
  }

  /** Only the caller of a failed piece gets its error. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    // The first piece begins synchronously.
    const mine = this.#last === undefined ? work() : this.#last.then(work, work);
    this.#last = mine;
    try {
      return await mine;
    } finally {
      if (this.#last === mine) this.#last = undefined;
    }
  }

  /** Resolves when no work is in progress, including work added meanwhile. */
  async settled(): Promise<void> {
    while (this.#last !== undefined) await Promise.allSettled([this.#last]);
  }
}

/** One queue per key, such as a sandbox or a team. */
export class OneAtATimeByKey {
  /** Only keys with work in progress. */
  readonly #lines = new Map<string, OneAtATime>();

  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const line = this.#lines.get(key) ?? new OneAtATime();
    this.#lines.set(key, line);
    try {
      return await line.run(work);
    } finally {
      if (line.isIdle && this.#lines.get(key) === line) this.#lines.delete(key);
    }
  }

  /** A turn that lasts until it is disposed of; without a promise if it begins at once. */
  enter(key: string): Disposable | Promise<Disposable> {
    const [begun, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const turn = { [Symbol.dispose]: over.resolve };
    const isFree = !this.#lines.has(key);
    void this.run(key, () => {
      begun.resolve();
      return over.promise;
    });
    return isFree ? turn : begun.promise.then(() => turn);
  }

  async settled(): Promise<void> {
    while (this.#lines.size > 0) await Promise.all([...this.#lines.values()].map((line) => line.settled()));
  }
}
