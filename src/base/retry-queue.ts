/** A queue for work that must succeed eventually: a few items at a time, failures retried with growing delays. */
import type { Background } from "./background.ts";
import type { Clock, Timer } from "./clock.ts";

interface RetryQueueOptions<T> {
  clock: Clock;
  background: Background;
  work(item: T): Promise<void>;
  /** Called for each failure; a retry follows. */
  failed(item: T, error: unknown): void;
  atOnce: number;
  /** Slower work goes on but frees its place in the queue. It must end on its own. */
  waitMaxMs?: number;
  retryMinMs: number;
  retryMaxMs: number;
}

export class RetryQueue<T> {
  /** Bounded by the number of items that callers have. */
  readonly #queue: { item: T; retryMs: number }[] = [];
  readonly #retries = new Set<Timer>();
  #workers = 0;
  #closed = false;

  constructor(private readonly options: RetryQueueOptions<T>) {}

  /** Works on the item now. When it throws, a retry is queued. */
  async finish(item: T): Promise<void> {
    try {
      await this.options.work(item);
    } catch (error) {
      this.#retryLater(item, this.options.retryMinMs, error);
      throw error;
    }
  }

  /** Queues the items. */
  enqueue(items: readonly T[]): void {
    const { retryMinMs } = this.options;
    for (const item of items) this.#queue.push({ item, retryMs: retryMinMs });
    this.#startWorkers();
  }

  close(): void {
    this.#closed = true;
    this.#queue.length = 0;
    for (const timer of this.#retries) timer.cancel();
    this.#retries.clear();
  }

  #retryLater(item: T, delayMs: number, error: unknown): void {
    const { clock, retryMaxMs, failed } = this.options;
    failed(item, error);
    if (this.#closed) return;
    const timer = clock.after(delayMs, () => {
      this.#retries.delete(timer);
      this.#queue.push({ item, retryMs: Math.min(delayMs * 2, retryMaxMs) });
      this.#startWorkers();
    });
    this.#retries.add(timer);
  }

  #startWorkers(): void {
    while (this.#workers < this.options.atOnce) {
      const first = this.#queue.shift();
      if (first === undefined) return;
      this.#workers++;
      this.options.background.run("queued work failed", () => this.#work(first));
    }
  }

  /** Resolves when the work is done, or after `waitMaxMs`; the work then goes on in the background. */
  async #whileShort(work: Promise<void>): Promise<void> {
    const { clock, background, waitMaxMs } = this.options;
    if (waitMaxMs === undefined) return await work;
    const over = Promise.withResolvers<void>();
    const timer = clock.after(waitMaxMs, () => {
      background.run("queued work failed", () => work);
      over.resolve();
    });
    await Promise.race([work, over.promise]).finally(() => timer.cancel());
  }

  async #work(first: { item: T; retryMs: number }): Promise<void> {
    try {
      for (
        let next: typeof first | undefined = first;
        next !== undefined && !this.#closed;
        next = this.#queue.shift()
      ) {
        const { item, retryMs } = next;
        await this.#whileShort(this.options.work(item).catch((error) => this.#retryLater(item, retryMs, error)));
      }
    } finally {
      this.#workers--;
    }
  }
}
