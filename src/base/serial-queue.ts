/**
 * Serialises work: each piece begins when the previous one has ended, successfully or not, in the order of the calls.
 */
export class SerialQueue {
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
export class KeyedQueue {
  /** Only keys with work in progress. */
  readonly #queues = new Map<string, SerialQueue>();

  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const queue = this.#queues.get(key) ?? new SerialQueue();
    this.#queues.set(key, queue);
    try {
      return await queue.run(work);
    } finally {
      if (queue.isIdle && this.#queues.get(key) === queue) this.#queues.delete(key);
    }
  }

  /** A turn that lasts until it is disposed of; without a promise if it begins at once. */
  enter(key: string): Disposable | Promise<Disposable> {
    const [begun, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const turn = { [Symbol.dispose]: over.resolve };
    const isFree = !this.#queues.has(key);
    void this.run(key, () => {
      begun.resolve();
      return over.promise;
    });
    return isFree ? turn : begun.promise.then(() => turn);
  }

  async settled(): Promise<void> {
    while (this.#queues.size > 0) await Promise.all([...this.#queues.values()].map((line) => line.settled()));
  }
}
