/**
 * The log of a build, delivered in order and in batches. Output of commands has a total limit; the build's own messages
 * are short and always delivered.
 */
import { type Clock, systemClock, type Timer } from "../base/clock.ts";
import { TokenBucket } from "../base/token-bucket.ts";
import type { BuildLogEntry } from "../contract/internal/host.ts";
import { BUILD_LOG_ENTRY_OVERHEAD_BYTES } from "./limits.ts";
import { OutputLines } from "./output-lines.ts";

/** A batch is delivered after this time or at this size. */
export const BUILD_LOG_GATHER_MS = 100;
export const BUILD_LOG_GATHER_BYTES = 64 * 1024;
/** Read rate of command output, also after the log is full. */
const BUILD_OUTPUT_BURST_BYTES = 16 * 1024 * 1024;
const BUILD_OUTPUT_BYTES_PER_SECOND = 4 * 1024 * 1024;
/** Length of a failed step's output in its error message. */
export const BUILD_TAIL_MAX_CHARS = 4096;

const FLOW = { burst: BUILD_OUTPUT_BURST_BYTES, perSecond: BUILD_OUTPUT_BYTES_PER_SECOND };

export class BuildLog {
  readonly #tell: (entries: readonly BuildLogEntry[]) => void;
  readonly #maxBytes: number;
  readonly #clock: Clock;
  readonly #flow = new TokenBucket(FLOW, performance.now());
  #gathered: BuildLogEntry[] = [];
  #gatheredBytes = 0;
  #outputBytes = 0;
  #timer: Timer | undefined;

  constructor(tell: (entries: readonly BuildLogEntry[]) => void, maxBytes: number, clock = systemClock) {
    this.#tell = tell;
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  say(level: BuildLogEntry["level"], step: string | null, message: string): void {
    this.#gathered.push({ at: this.#clock.now(), level, message, step });
    this.#gatheredBytes += Buffer.byteLength(message) + BUILD_LOG_ENTRY_OVERHEAD_BYTES;
    if (this.#gatheredBytes >= BUILD_LOG_GATHER_BYTES) this.flush();
    else this.#timer ??= this.#clock.after(BUILD_LOG_GATHER_MS, () => this.flush());
  }

  /** Collects the output of one command. */
  output(step: string): CommandOutput {
    return new CommandOutput(
      (line) => this.#line(step, line),
      (bytes) => this.#pace(bytes),
    );
  }

  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#gatheredBytes = 0;
    const entries = this.#gathered;
    this.#gathered = [];
    if (entries.length > 0) this.#tell(entries);
  }

  #line(step: string, line: string): void {
    if (this.#outputBytes >= this.#maxBytes) return;
    this.#outputBytes += Buffer.byteLength(line) + BUILD_LOG_ENTRY_OVERHEAD_BYTES;
    const isLast = this.#outputBytes >= this.#maxBytes;
    if (!isLast) this.say("info", step, line);
    else
      this.say(
        "warn",
        step,
        `The log has ${this.#maxBytes} bytes, which is all that is kept: further output is dropped`,
      );
  }

  /** Slows down a command that writes without end, so that reading it does not keep the server busy. */
  async #pace(bytes: number): Promise<void> {
    if (this.#flow.charge(bytes, performance.now())) return;
    await Bun.sleep(this.#flow.msUntil(0, performance.now()));
  }
}

/** The output of one command: logged line by line, with its end kept for an error message. */
export class CommandOutput {
  readonly #lines: OutputLines;
  readonly #pace: (bytes: number) => Promise<void>;
  #tail: string[] = [];
  #tailChars = 0;

  constructor(say: (line: string) => void, pace: (bytes: number) => Promise<void>) {
    this.#pace = pace;
    this.#lines = new OutputLines((line) => {
      say(line);
      this.#keep(line);
    });
  }

  readonly take = async (chunk: Uint8Array): Promise<void> => {
    this.#lines.add(chunk);
    await this.#pace(chunk.length);
  };

  /** Flushes the rest and returns the last lines. */
  end(): string {
    this.#lines.end();
    return this.#tail.join("\n").trim();
  }

  #keep(line: string): void {
    this.#tail.push(line);
    this.#tailChars += line.length + 1;
    while (this.#tailChars > BUILD_TAIL_MAX_CHARS && this.#tail.length > 1) {
      this.#tailChars -= (this.#tail.shift()?.length ?? 0) + 1;
    }
  }
}

/** Discards the output of a command. */
export function silentOutput(): CommandOutput {
  return new CommandOutput(
    () => undefined,
    async () => undefined,
  );
}
