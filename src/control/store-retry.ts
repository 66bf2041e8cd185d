/** Repeats work that the store must do for as long as the store is unavailable: with growing delays, few log lines. */
import { described } from "../base/log.ts";
import { STORE_RETRY_MAX_MS, STORE_RETRY_MIN_MS } from "./limits.ts";
import type { Parts } from "./parts.ts";

/** How long to wait after so many failures in a row. */
export function retryDelayMs(failures: number): number {
  return Math.min(STORE_RETRY_MIN_MS * 2 ** (failures - 1), STORE_RETRY_MAX_MS);
}

/** The first failure in a row, and each doubling of their number. */
export function isLogged(failures: number): boolean {
  return Number.isInteger(Math.log2(failures));
}

export class StoreRetry {
  readonly #closing = Promise.withResolvers<void>();
  #isClosed = false;

  constructor(private readonly parts: Pick<Parts, "clock" | "log">) {}

  /**
   * Repeats `record` until it succeeds. Throws its error when the server stops, or when `isPassing` says that another
   * attempt would not help.
   */
  async untilRecorded<T>(
    what: string,
    record: () => Promise<T>,
    isPassing: (error: unknown) => boolean = () => true,
  ): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await record();
      } catch (error) {
        if (!isPassing(error)) throw error;
        const event = `${what} could not be recorded`;
        if (isLogged(failures)) this.parts.log.write({ level: "error", event, failures, error: described(error) });
        if (this.#isClosed) throw error;
        await this.pause(retryDelayMs(failures));
        if (this.#isClosed) throw error;
      }
    }
  }

  /** Ends early when the server stops. */
  async pause(ms = STORE_RETRY_MIN_MS): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.parts.clock.after(ms, over.resolve);
    await Promise.race([over.promise, this.#closing.promise]);
    timer.cancel();
  }

  close(): void {
    this.#isClosed = true;
    this.#closing.resolve();
  }
}
