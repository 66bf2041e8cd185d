/** The output of a command of a build: its lines, and the end of them for the message of a failure. */

/** Longer lines are split. */
export const BUILD_LOG_LINE_MAX_CHARS = 4096;
/** Length of a failed step's output in its error message. */
export const BUILD_TAIL_MAX_CHARS = 4096;

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
