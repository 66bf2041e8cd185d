/**
 * Work that must not overlap: each piece begins when the one before has ended, well or badly, in the order of the
 * calls.
 */
export class OneAtATime {
  #last: Promise<unknown> | undefined;

  get isIdle(): boolean {
    return this.#last === undefined;
  }

  /** A failure is told to the one who asked for that work, and to nobody else. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    // The first begins at once, not a moment later.
    const mine = this.#last === undefined ? work() : this.#last.then(work, work);
    this.#last = mine;
    try {
      return await mine;
    } finally {
      if (this.#last === mine) this.#last = undefined;
    }
  }

  /** Resolves when nothing is under way, also nothing that was asked for meanwhile. */
  async settled(): Promise<void> {
    while (this.#last !== undefined) await Promise.allSettled([this.#last]);
  }
}

/** The same for each key by itself, such as a sandbox or a team. */
export class OneAtATimeByKey {
  /** Only those that have something under way. */
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

  async settled(): Promise<void> {
    while (this.#lines.size > 0) await Promise.all([...this.#lines.values()].map((line) => line.settled()));
  }
}
