/**
 * Counts answers that the server has for the relay and that its pipe has not taken yet. A sandbox chooses how often its
 * requests need large headers, and the relay reads one pipe for all, so both the share of each sandbox and the total
 * are limited.
 */

export const UNSENT_PER_SANDBOX_MAX_BYTES = 8 * 1024 * 1024;
export const UNSENT_MAX_BYTES = 64 * 1024 * 1024;

export class UnsentAnswers {
  /** By the sandbox's address. */
  readonly #bytes = new Map<string, number>();
  #total = 0;

  /** False: there is no room, and nothing is counted. */
  take(source: string, bytes: number): boolean {
    const own = (this.#bytes.get(source) ?? 0) + bytes;
    if (own > UNSENT_PER_SANDBOX_MAX_BYTES || this.#total + bytes > UNSENT_MAX_BYTES) return false;
    this.#bytes.set(source, own);
    this.#total += bytes;
    return true;
  }

  free(source: string, bytes: number): void {
    const own = (this.#bytes.get(source) ?? 0) - bytes;
    if (own <= 0) this.#bytes.delete(source);
    else this.#bytes.set(source, own);
    this.#total -= bytes;
  }
}
