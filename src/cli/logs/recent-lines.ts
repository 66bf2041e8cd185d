/** The newest lines of the server's log, in memory, for `sandlot logs` and `sandlot support`. */

/** Bounds of the kept lines. */
export const LOG_KEPT_LINES = 2_000;
export const LOG_KEPT_CHARS = 1024 * 1024;

export class RecentLines {
  readonly #lines: string[] = [];
  #chars = 0;

  add(line: string): void {
    const kept = line.slice(0, LOG_KEPT_CHARS);
    this.#lines.push(kept);
    this.#chars += kept.length;
    while (this.#lines.length > LOG_KEPT_LINES || this.#chars > LOG_KEPT_CHARS) {
      this.#chars -= this.#lines.shift()?.length ?? 0;
    }
  }

  /** One line each, the oldest first. */
  get text(): string {
    return this.#lines.map((line) => `${line}\n`).join("");
  }
}
