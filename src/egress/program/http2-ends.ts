/**
 * Knows which HTTP/2 streams have ended in order, from the frames of one direction. Bun's HTTP/2 module reports a
 * stream that was reset, or lost with its connection, as if its body were complete; the relay must not pass that on.
 */

/** The client's connection preface (RFC 9113, 3.4). */
const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;
const [DATA, HEADERS] = [0, 1];
const END_STREAM = 1;
const STREAM_MASK = 0x7fffffff;
/** Ends that are remembered; the oldest are forgotten first. There are fewer streams at a time. */
const ENDS_KEPT_MAX = 1000;

export class Http2Ends {
  readonly #ended = new Set<number>();
  /** The beginning of a frame's head. */
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  /** Bytes to skip: the preface, or the content of a frame. */
  #left: number;

  constructor(from: "client" | "server") {
    this.#left = from === "client" ? PREFACE_BYTES : 0;
  }

  has(stream: number | undefined): boolean {
    return stream !== undefined && this.#ended.has(stream);
  }

  forget(stream: number | undefined): void {
    if (stream !== undefined) this.#ended.delete(stream);
  }

  read(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const skipped = Math.min(this.#left, bytes.length - at);
      this.#left -= skipped;
      at += skipped;
      const taken = bytes.copy(
        this.#head,
        this.#headBytes,
        at,
        Math.min(bytes.length, at + HEAD_BYTES - this.#headBytes),
      );
      this.#headBytes += taken;
      at += taken;
      if (this.#headBytes === HEAD_BYTES) this.#readHead();
    }
  }

  #readHead(): void {
    const [kind, flags = 0] = [this.#head[3], this.#head[4]];
    if ((kind === DATA || kind === HEADERS) && (flags & END_STREAM) !== 0) {
      this.#ended.add(this.#head.readUInt32BE(5) & STREAM_MASK);
      const [oldest] = this.#ended;
      if (this.#ended.size > ENDS_KEPT_MAX && oldest !== undefined) this.#ended.delete(oldest);
    }
    this.#left = this.#head.readUIntBE(0, 3);
    this.#headBytes = 0;
  }
}
