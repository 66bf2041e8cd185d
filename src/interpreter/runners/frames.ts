/**
 * Parses a runner's output pipe: text of the user's programs and messages of the runner, in the order in which both
 * were written. A message is JSON in one or more frames. A frame is a record separator, the runner's token, the kind of
 * part (`:` whole message, `<` first, `+` middle, `>` last), the part, and a unit separator. JSON contains neither
 * separator, and programs do not print the token by accident. A message without its end, because its runner was
 * interrupted, is dropped.
 */

/** Maximum size of a frame: a pipe accepts this much atomically, even with other writers. */
export const FRAME_MAX_BYTES = 4_096;
/** Maximum size of a message, such as a picture. Larger ones are dropped. */
const MESSAGE_MAX_CHARS = 256 * 1024 * 1024;

const END = 0x1f;
const [WHOLE, FIRST, LAST] = Buffer.from(":<>");

export class Frames {
  readonly #start: Buffer;
  #held: Buffer = Buffer.alloc(0);
  #parts: string[] = [];
  #chars = 0;

  constructor(
    token: string,
    private readonly onText: (bytes: Uint8Array) => void,
    private readonly onMessage: (json: string) => void,
  ) {
    this.#start = Buffer.from(`\x1e${token}`);
  }

  take(chunk: Uint8Array): void {
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    if (this.#held.length > 0) rest = Buffer.concat([this.#held, rest]);
    this.#held = Buffer.alloc(0);
    while (rest.length > 0) {
      const start = this.#startIn(rest);
      if (start > 0) this.onText(rest.subarray(0, start));
      rest = rest.subarray(start);
      if (rest.length === 0) return;
      const end = rest.indexOf(END, this.#start.length);
      if (end === -1) {
        if (rest.length <= FRAME_MAX_BYTES) {
          this.#held = Buffer.from(rest);
          return;
        }
        // Another program printed the token.
        this.onText(rest.subarray(0, 1));
        rest = rest.subarray(1);
        continue;
      }
      this.#frame(rest.subarray(this.#start.length, end));
      rest = rest.subarray(end + 1);
    }
  }

  /** A held partial frame start was plain text. */
  end(): void {
    if (this.#held.length > 0) this.onText(this.#held);
    this.#held = Buffer.alloc(0);
  }

  /** Index at which a frame starts, or may start with the next bytes; the length if none does. */
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
    if (isWhole) this.onMessage(json);
  }

  #forget(): void {
    this.#parts = [];
    this.#chars = 0;
  }
}
