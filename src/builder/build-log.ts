/** The log of a build, in order and in batches. Only the output of commands has a total limit. */
import { type Clock, systemClock, type Timer } from "../base/clock.ts";
import type { BuildLogEntry } from "../contract/internal/host.ts";
import { CommandOutput } from "./command-output.ts";

/** A batch is delivered after this time or at this size. */
export const BUILD_LOG_GATHER_MS = 100;
export const BUILD_LOG_GATHER_BYTES = 64 * 1024;
/** Counted for each entry besides its text. */
const BUILD_LOG_ENTRY_OVERHEAD_BYTES = 32;

export class BuildLog {
  #gathered: BuildLogEntry[] = [];
  #gatheredBytes = 0;
  #outputBytes = 0;
  #timer: Timer | undefined;

  constructor(
    private readonly onEntries: (entries: readonly BuildLogEntry[]) => void,
    private readonly maxBytes: number,
    private readonly clock: Clock = systemClock,
  ) {}

  say(level: BuildLogEntry["level"], step: string | null, message: string): void {
    this.#gathered.push({ at: this.clock.now(), level, message, step });
    this.#gatheredBytes += Buffer.byteLength(message) + BUILD_LOG_ENTRY_OVERHEAD_BYTES;
    if (this.#gatheredBytes >= BUILD_LOG_GATHER_BYTES) this.flush();
    else this.#timer ??= this.clock.after(BUILD_LOG_GATHER_MS, () => this.flush());
  }

  output(step: string): CommandOutput {
    return new CommandOutput((line) => this.#line(step, line));
  }

  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#gatheredBytes = 0;
    const entries = this.#gathered;
    this.#gathered = [];
    if (entries.length > 0) this.onEntries(entries);
  }

  #line(step: string, line: string): void {
    if (this.#outputBytes >= this.maxBytes) return;
    this.#outputBytes += Buffer.byteLength(line) + BUILD_LOG_ENTRY_OVERHEAD_BYTES;
    const isLast = this.#outputBytes >= this.maxBytes;
    if (!isLast) this.say("info", step, line);
    else
      this.say(
        "warn",
        step,
        `The log has ${this.maxBytes} bytes, which is all that is kept: further output is dropped`,
      );
  }
}
