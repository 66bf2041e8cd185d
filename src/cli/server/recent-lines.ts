/** The newest lines of the server's log, in memory, for `sandlot logs` and `sandlot support`. */
import type { LogEntry } from "../../base/log.ts";

/** Bounds of the kept lines: once for lines of the level `info`, once for warnings and errors. */
export const LOG_KEPT_LINES = 2_000;
export const LOG_KEPT_CHARS = 1024 * 1024;

export class RecentLines {
  /** Any client can cause lines about requests, so these displace only each other. */
  readonly #infos = new Ring();
  readonly #problems = new Ring();
  #count = 0;

  add(line: string, level: LogEntry["level"]): void {
    const ring = level === "info" ? this.#infos : this.#problems;
    ring.add(this.#count++, line.slice(0, LOG_KEPT_CHARS));
  }

  /** One line each, the oldest first. */
  get text(): string {
    const kept = this.#infos.lines.concat(this.#problems.lines).sort((a, b) => a.number - b.number);
    return kept.map(({ line }) => `${line}\n`).join("");
  }
}

class Ring {
  readonly lines: { number: number; line: string }[] = [];
  #chars = 0;

  add(number: number, line: string): void {
    this.lines.push({ number, line });
    this.#chars += line.length;
    while (this.lines.length > LOG_KEPT_LINES || this.#chars > LOG_KEPT_CHARS) {
      this.#chars -= this.lines.shift()?.line.length ?? 0;
    }
  }
}
