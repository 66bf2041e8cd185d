/**
 * The output of a command as lines of a log. A program that draws over its line (with carriage returns) has only what
 * it drew last, and a line without an end is cut.
 */
import { BUILD_LOG_LINE_MAX_CHARS } from "./limits.ts";

export class OutputLines {
  readonly #decoder = new TextDecoder();
  readonly #say: (line: string) => void;
  #rest = "";

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line);
    // Drop what is redrawn. A carriage return at the very end may belong to a line feed.
    const drawn = this.#rest.lastIndexOf("\r", this.#rest.length - 2);
    if (drawn >= 0) this.#rest = this.#rest.slice(drawn + 1);
    while (this.#rest.length > BUILD_LOG_LINE_MAX_CHARS) {
      this.#say(plain(this.#rest.slice(0, BUILD_LOG_LINE_MAX_CHARS)));
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
      this.#say(plain(shown.slice(at, at + BUILD_LOG_LINE_MAX_CHARS)));
    }
  }
}

/** Some stores reject NUL in text. */
function plain(line: string): string {
  return line.replaceAll("\0", "\ufffd");
}
