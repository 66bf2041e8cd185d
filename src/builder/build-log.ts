/** The log of a build, in order and in batches. Only the output of commands has a total limit. */
import { type Clock, systemClock, type Timer } from "../base/clock.ts";
import type { BuildLogEntry } from "../contract/internal/host.ts";

/** A batch is delivered after this time or at this size. */
export const BUILD_LOG_GATHER_MS = 100;
export const BUILD_LOG_GATHER_BYTES = 64 * 1024;
/** Longer lines are split, and each entry counts this overhead besides its text. */
export const BUILD_LOG_LINE_MAX_CHARS = 4096;
const BUILD_LOG_ENTRY_OVERHEAD_BYTES = 32;
/** Length of a failed step's output in its error message. */
export const BUILD_TAIL_MAX_CHARS = 4096;

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

/** The output of one command: logged line by line, with its end kept for an error message. */
export class CommandOutput {
  readonly #lines: OutputLines;
  #tail: string[] = [];
  #tailChars = 0;

  constructor(say: (line: string) => void) {
    this.#lines = new OutputLines((line) => {
      say(line);
      this.#keep(line);
    });
  }

  readonly take = (chunk: Uint8Array): void => this.#lines.add(chunk);

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

export function silentOutput(): CommandOutput {
  return new CommandOutput(() => undefined);
}

/** The lines of a command's output: of a line drawn over by carriage returns the last, and long ones cut. */
class OutputLines {
  readonly #decoder = new TextDecoder();
  #rest = "";

  constructor(private readonly say: (line: string) => void) {}

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line);
    // Drop what is redrawn. A carriage return at the very end may belong to a line feed.
    const drawn = this.#rest.lastIndexOf("\r", this.#rest.length - 2);
    if (drawn >= 0) this.#rest = this.#rest.slice(drawn + 1);
    while (this.#rest.length > BUILD_LOG_LINE_MAX_CHARS) {
      this.say(plain(this.#rest.slice(0, BUILD_LOG_LINE_MAX_CHARS)));
      this.#rest = this.#rest.slice(BUILD_LOG_LINE_MAX_CHARS);
    }
  }

  /** Flushes the last line, which has no line feed. */
  end(): void {
    const last = this.#rest + this.#decoder.decode();
    this.#rest = "";
    if (last !== "") this.#line(last);
  }

  #line(text: string): void {
    const ended = text.endsWith("\r") ? text.slice(0, -1) : text;
    const shown = ended.slice(ended.lastIndexOf("\r") + 1);
    for (let at = 0; at === 0 || at < shown.length; at += BUILD_LOG_LINE_MAX_CHARS) {
      this.say(plain(shown.slice(at, at + BUILD_LOG_LINE_MAX_CHARS)));
    }
  }
}

/** Some stores reject NUL in text. */
function plain(line: string): string {
  return line.replaceAll("\0", "\ufffd");
}
