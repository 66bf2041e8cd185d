/**
 * What comes out of a pipe of a runner: text of the user's programs and, between it, messages of the runner itself, in
 * the order in which both were written. A message is JSON in one or more frames. A frame is a record separator, the
 * runner's token, which part of a message it is (`:` all of it, `<` the first, `+` one between, `>` the last), that
 * part, and a unit separator. JSON has neither of the separators in it, and nobody prints the token by accident. A
 * message of which the end is missing, because its runner was interrupted, is dropped.
 */

/** Of one part of a message: a pipe takes as much as this in one piece, whoever else writes into it. */
export const FRAME_MAX_BYTES = 4_096;
/** Of a message, such as a picture. What is larger is left out. */
const MESSAGE_MAX_CHARS = 256 * 1024 * 1024;

const END = 0x1f;
const [WHOLE, FIRST, LAST] = Buffer.from(":<>");

export class Frames {
  readonly #start: Buffer;
  readonly #onText: (bytes: Uint8Array) => void;
  readonly #onMessage: (json: string) => void;
  #held: Buffer = Buffer.alloc(0);
  #parts: string[] = [];
  #chars = 0;

  constructor(token: string, onText: (bytes: Uint8Array) => void, onMessage: (json: string) => void) {
    this.#start = Buffer.from(`\x1e${token}`);
    this.#onText = onText;
    this.#onMessage = onMessage;
  }

  take(chunk: Uint8Array): void {
    let rest = this.#held.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : this.#with(chunk);
    this.#held = Buffer.alloc(0);
    while (rest.length > 0) {
      const start = this.#startIn(rest);
      if (start > 0) this.#onText(rest.subarray(0, start));
      rest = rest.subarray(start);
      if (rest.length === 0) return;
      const end = rest.indexOf(END, this.#start.length);
      if (end === -1) {
        if (rest.length <= FRAME_MAX_BYTES) {
          this.#held = Buffer.from(rest);
          return;
        }
        // Somebody has printed the token and is no runner.
        this.#onText(rest.subarray(0, 1));
        rest = rest.subarray(1);
        continue;
      }
      this.#frame(rest.subarray(this.#start.length, end));
      rest = rest.subarray(end + 1);
    }
  }

  /** What looked like the beginning of a frame was none. */
  end(): void {
    if (this.#held.length > 0) this.#onText(this.#held);
    this.#held = Buffer.alloc(0);
  }

  #with(chunk: Uint8Array): Buffer {
    return Buffer.concat([this.#held, chunk]);
  }

  /** Where a frame starts, or may start with what comes next; the length if none does. */
  #startIn(bytes: Buffer): number {
    const whole = bytes.indexOf(this.#start);
    if (whole !== -1) return whole;
    const from = Math.max(0, bytes.length - this.#start.length + 1);
    for (
      let at = bytes.indexOf(this.#start[0] ?? 0, from);
      at !== -1;
      at = bytes.indexOf(this.#start[0] ?? 0, at + 1)
    ) {
      if (bytes.subarray(at).equals(this.#start.subarray(0, bytes.length - at))) return at;
    }
    return bytes.length;
  }

  #frame(frame: Buffer): void {
    const [kind] = frame;
    const text = frame.toString("utf8", 1);
    if (kind === WHOLE || kind === FIRST) this.#forget();
    this.#chars += text.length;
    if (this.#chars <= MESSAGE_MAX_CHARS) this.#parts.push(text);
    if (kind !== WHOLE && kind !== LAST) return;
    const json = this.#parts.join("");
    const isWhole = this.#chars <= MESSAGE_MAX_CHARS;
    this.#forget();
    if (isWhole) this.#onMessage(json);
  }

  #forget(): void {
    this.#parts = [];
    this.#chars = 0;
  }
}
