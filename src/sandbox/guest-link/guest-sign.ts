/**
 * A guest that has just been started says when it listens: it touches a file of its sandbox, which is watched until
 * then. To look for it instead takes a connection into the sandbox each time, and finds it late.
 */
import { type FSWatcher, watch } from "node:fs";

export class GuestSign implements Disposable {
  readonly #given = Promise.withResolvers<void>();
  readonly #watcher: FSWatcher | undefined;
  #isGiven = false;

  /** To be made before the guest is started. */
  constructor(path: string) {
    this.#watcher = watched(path, () => this.#give());
    // One that fails later says nothing any more: whoever waits looks now and then.
    this.#watcher?.on("error", () => undefined);
  }

  /** False: no sign will come, as when this machine lets nobody watch any more files. */
  get isWatched(): boolean {
    return this.#watcher !== undefined;
  }

  /** Whether it has come by then. Resolves as soon as it has. */
  async within(ms: number): Promise<boolean> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, ms);
    await Promise.race([this.#given.promise, late.promise]);
    clearTimeout(timer);
    return this.#isGiven;
  }

  [Symbol.dispose](): void {
    this.#watcher?.close();
  }

  #give(): void {
    this.#isGiven = true;
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
