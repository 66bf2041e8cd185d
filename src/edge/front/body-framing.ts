/**
 * Where a body ends in the bytes of a connection: counted, in chunks, or with the connection. One reading for both
 * sides, requests and answers, and a strict one.
 */
import { EDGE_CHUNK_LINE_MAX_BYTES, EDGE_CHUNK_TRAILER_MAX_LINES, EDGE_CHUNKS_AT_ONCE_MAX } from "../limits.ts";

/** How a body's end is told. */
export interface Framing {
  /**
   * Takes what arrived and gives the content that is in it; may overwrite it. Throws when it is not framed as it must
   * be.
   */
  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer>;
  readonly ended: boolean;
  /** How many of the bytes that were taken last, at their end, are behind the body. */
  readonly surplus: number;
  /** How many of them, at their end, were left for another call: enough was done for one turn. */
  readonly untaken?: number;
  /** Nothing but the end of the connection tells. */
  readonly endsWithConnection?: true;
  /** How many bytes of content are still to come, if that is known. */
  readonly left?: number;
  /** So many of them went another way. */
  skip?(bytes: number): void;
  /** The same of a body in chunks: of the one that has begun. */
  readonly chunkLeft?: number;
  /** It went another way, and perhaps others behind it; what comes next is the line end of the last of them. */
  skipChunks?(): void;
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const SEMICOLON = 0x3b;
const DELETE = 0x7f;
/** By byte; `NO_DIGIT` for all others. */
const NO_DIGIT = 16;
const HEX_DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? NO_DIGIT : digit;
});
const SIZE_DIGITS_MAX = 8;
const MOVED_BY_HAND_MAX_BYTES = 32;

/** What a body in chunks goes on with: within a chunk, its length, or a trailer. */
const State = {
  SizeStart: 0,
  Size: 1,
  BehindSize: 2,
  Extension: 3,
  SizeLf: 4,
  Content: 5,
  ContentCr: 6,
  ContentLf: 7,
  TrailerStart: 8,
  Trailer: 9,
  TrailerLf: 10,
  LastLf: 11,
  Ended: 12,
} as const;
type State = (typeof State)[keyof typeof State];

export class CountedBody implements Framing {
  #left: number;
  surplus = 0;

  constructor(length: number) {
    this.#left = length;
  }

  get ended(): boolean {
    return this.#left === 0;
  }

  get left(): number {
    return this.#left;
  }

  skip(bytes: number): void {
    this.#left -= bytes;
    this.surplus = 0;
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    this.surplus = Math.max(bytes.length - this.#left, 0);
    const content = this.surplus === 0 ? bytes : bytes.subarray(0, this.#left);
    this.#left -= content.length;
    return content;
  }
}

export class BodyUntilClose implements Framing {
  readonly ended = false;
  readonly surplus = 0;
  readonly endsWithConnection = true;

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    return bytes;
  }
}

/**
 * A body in chunks, read byte by byte. Nothing is allocated for a chunk, and the content is moved together within the
 * bytes that arrived. What one call reads of tiny chunks is bounded: the rest is `untaken`, for a later turn.
 */
export class ChunkedBody implements Framing {
  #state: State = State.SizeStart;
  #lineBytes = 0;
  #digits = 0;
  #trailers = 0;
  #left = 0;
  surplus = 0;
  untaken = 0;

  get ended(): boolean {
    return this.#state === State.Ended;
  }

  get chunkLeft(): number {
    return this.#left;
  }

  skipChunks(): void {
    this.#left = 0;
    this.#state = State.ContentCr;
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    const end = bytes.length;
    let gathered = 0;
    let at = 0;
    for (let chunks = 0; at < end && chunks < EDGE_CHUNKS_AT_ONCE_MAX; ) {
      const state = this.#state;
      if (state === State.Ended) break;
      if (state === State.Content) {
        const taken = Math.min(this.#left, end - at);
        move(bytes, at, taken, gathered);
        gathered += taken;
        at += taken;
        this.#left -= taken;
        chunks += 1;
        if (this.#left > 0) continue;
        this.#state = State.ContentCr;
        if (bytes[at] !== CARRIAGE_RETURN || bytes[at + 1] !== LINE_FEED) continue;
        this.#state = State.SizeStart;
        at += 2;
        continue;
      }
      // Nearly all lengths stand alone on their line and arrive whole; all others go byte by byte.
      let size = 0;
      let digits = 0;
      if (state === State.SizeStart) {
        for (
          let digit = hex(bytes, at);
          digit < NO_DIGIT && digits <= SIZE_DIGITS_MAX;
          digit = hex(bytes, at + digits)
        ) {
          size = size * 16 + digit;
          digits += 1;
        }
      }
      const isPlain = digits > 0 && digits <= SIZE_DIGITS_MAX && size > 0;
      if (isPlain && bytes[at + digits] === CARRIAGE_RETURN && bytes[at + digits + 1] === LINE_FEED) {
        this.#left = size;
        this.#state = State.Content;
        at += digits + 2;
      } else this.#takeByte(bytes[at++] as number);
    }
    this.surplus = this.ended ? end - at : 0;
    this.untaken = this.ended ? 0 : end - at;
    return bytes.subarray(0, gathered);
  }

  /** Of anything but content. */
  #takeByte(byte: number): void {
    switch (this.#state) {
      case State.ContentCr:
        if (byte !== CARRIAGE_RETURN) throw new Error("the body has a chunk of another length than announced");
        this.#state = State.ContentLf;
        return;
      case State.ContentLf:
        if (byte !== LINE_FEED) throw new Error("the body has a chunk of another length than announced");
        this.#state = State.SizeStart;
        return;
      case State.SizeStart:
        this.#left = 0;
        this.#digits = 0;
        this.#lineBytes = 0;
        this.#state = State.Size;
        this.#takeSize(byte);
        return;
      case State.Size:
        this.#takeSize(byte);
        return;
      default:
        this.#takeRestOfLine(byte);
    }
  }

  #takeSize(byte: number): void {
    const digit = HEX_DIGITS[byte] as number;
    if (digit < NO_DIGIT && ++this.#digits <= SIZE_DIGITS_MAX) {
      this.#lineBytes += 1;
      this.#left = this.#left * 16 + digit;
    } else if (digit < NO_DIGIT || this.#digits === 0) throw new Error("the body has a chunk without a length");
    else {
      this.#state = State.BehindSize;
      this.#takeRestOfLine(byte);
    }
  }

  /** Behind a chunk's length, where an extension is passed over and never passed on; or of a trailer. */
  #takeRestOfLine(byte: number): void {
    if (++this.#lineBytes > EDGE_CHUNK_LINE_MAX_BYTES) throw new Error("the body has too long a line");
    switch (this.#state) {
      case State.SizeLf:
      case State.TrailerLf:
        if (byte !== LINE_FEED) throw new Error("the body has a malformed line");
        this.#lineBytes = 0;
        if (this.#state === State.TrailerLf) this.#state = State.TrailerStart;
        else this.#state = this.#left === 0 ? State.TrailerStart : State.Content;
        return;
      case State.LastLf:
        if (byte !== LINE_FEED) throw new Error("the body has no clear end");
        this.#state = State.Ended;
        return;
      case State.TrailerStart:
        if (byte !== CARRIAGE_RETURN && ++this.#trailers > EDGE_CHUNK_TRAILER_MAX_LINES) {
          throw new Error("the body has no clear end");
        }
        this.#state = byte === CARRIAGE_RETURN ? State.LastLf : State.Trailer;
        if (byte === LINE_FEED) throw new Error("the body has a malformed line");
        return;
      case State.Trailer:
        if (byte === LINE_FEED) throw new Error("the body has a malformed line");
        if (byte === CARRIAGE_RETURN) this.#state = State.TrailerLf;
        return;
      default:
        this.#takeBehindSize(byte);
    }
  }

  #takeBehindSize(byte: number): void {
    if (byte === CARRIAGE_RETURN) this.#state = State.SizeLf;
    else if (byte === SEMICOLON) this.#state = State.Extension;
    else if (byte === TAB || byte === SPACE) return;
    else if (this.#state !== State.Extension || byte < SPACE || byte === DELETE) {
      throw new Error("the body has a chunk without a length");
    }
  }
}

function hex(bytes: Buffer<ArrayBuffer>, at: number): number {
  return at < bytes.length ? (HEX_DIGITS[bytes[at] as number] as number) : NO_DIGIT;
}

/** Like `copyWithin`, without its call for the few bytes of a tiny chunk. */
function move(bytes: Buffer<ArrayBuffer>, from: number, count: number, to: number): void {
  if (from === to) return;
  if (count > MOVED_BY_HAND_MAX_BYTES) bytes.copyWithin(to, from, from + count);
  else for (let at = 0; at < count; at += 1) bytes[to + at] = bytes[from + at] as number;
}
