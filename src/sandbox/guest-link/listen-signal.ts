/**
 * A signal from a starting guest that it listens: it touches a file of its sandbox, which the host watches. Polling
 * would need a connection into the sandbox each time, and would notice later.
 */
import { type FSWatcher, watch } from "node:fs";

export class ListenSignal implements Disposable {
  readonly #given = Promise.withResolvers<void>();
  readonly #watcher: FSWatcher | undefined;
  #isReceived = false;

  /** Create it before the guest starts. */
  constructor(path: string) {
    this.#watcher = watched(path, () => this.#receive());
    // After a failure no signal comes; the caller polls at intervals anyway.
    this.#watcher?.on("error", () => undefined);
  }

  /** False: no signal will come, for example because the machine's limit of file watches is reached. */
  get isWatched(): boolean {
    return this.#watcher !== undefined;
  }

  /** Resolves at the signal or after `ms`, with whether the signal has come. */
  async within(ms: number): Promise<boolean> {
    await Promise.race([this.#given.promise, Bun.sleep(ms)]);
    return this.#isReceived;
  }

  [Symbol.dispose](): void {
    this.#watcher?.close();
  }

  #receive(): void {
    this.#isReceived = true;
    this.#given.resolve();
  }
}

function watched(path: string, touched: () => void): FSWatcher | undefined {
  try {
    return watch(path, { persistent: false }, touched);
  } catch {
    return undefined;
  }
}
