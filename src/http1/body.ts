/**
 * Finds the end of a body in the bytes of a connection: by length, by chunks, or with the connection. Used for requests
 * and responses alike.
 */
import {
  CARRIAGE_RETURN,
  COLON,
  DELETE,
  HEX_DIGITS,
  IN_TOKEN,
  IN_VALUE,
  LINE_FEED,
  NO_DIGIT,
  SEMICOLON,
  SPACE,
  TAB,
} from "./bytes.ts";

export interface Body {
  /** Returns the part of the bytes to pass on; may overwrite them. Throws if they break the framing. */
  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer>;
  readonly ended: boolean;
  /** Number of bytes at the end of the last piece that follow the body. */
  readonly surplus: number;
  /**
   * Number of bytes at the end of the last piece left for another call, because one call reads a limited number of
   * chunks.
   */
  readonly untaken?: number;
  /** Set if only the end of the connection ends the body. */
  readonly endsWithConnection?: true;
  /** Number of content bytes that follow: of the whole body, or of the current chunk. Absent if unknown. */
  readonly left?: number;
  /** The kernel moved this many of the content bytes. */
  skip?(bytes: number): void;
}

/** Longest line of a chunk size with its extensions, or of a trailer. */
export const CHUNK_LINE_MAX_BYTES = 1024;
export const CHUNK_TRAILERS_MAX = 64;
const SIZE_DIGITS_MAX = 8;
const MOVED_BY_HAND_MAX_BYTES = 32;

/** Refused as trailers: they arrive too late to be checked, and another reader might apply them. */
const NEVER_TRAILERS: ReadonlySet<string> = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "upgrade",
]);

/** The part of a chunked body that the next byte belongs to. */
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
  TrailerName: 9,
  TrailerValue: 10,
  TrailerLf: 11,
  LastLf: 12,
  Ended: 13,
} as const;
type State = (typeof State)[keyof typeof State];

export class CountedBody implements Body {
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

export class BodyUntilClose implements Body {
  readonly ended = false;
  readonly surplus = 0;
  readonly endsWithConnection = true;

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    return bytes;
  }
}

interface ChunkRules {
  /**
   * Chunk lines in the bytes that `take` returns: "dropped" (the default), "plain", without extensions and trailers, or
   * "kept" as they came.
   */
  lines?: "dropped" | "plain" | "kept";
  /** For requests relayed unchanged: servers differ in how they read extensions. */
  refusesExtensions?: boolean;
  /** Further names in lower case that are refused as trailers. */
  neverTrailers?: ReadonlySet<string>;
  /** Maximum chunks read by one call; the rest of the bytes is `untaken`. Unlimited by default. */
  chunksAtOnce?: number;
}

/**
 * A chunked body, read byte by byte without an allocation per chunk. The bytes to pass on are moved together within the
 * arrived ones. Trailers must be well-formed.
 */
export class ChunkedBody implements Body {
  readonly lines: NonNullable<ChunkRules["lines"]>;
  readonly #refusesExtensions: boolean;
  readonly #chunksAtOnce: number;
  readonly #neverTrailers: ReadonlySet<string> | undefined;
  #state: State = State.SizeStart;
  #lineBytes = 0;
  #digits = 0;
  #trailers = 0;
  #trailerName = "";
  #left = 0;
  surplus = 0;
  untaken = 0;

  constructor({ lines, refusesExtensions, chunksAtOnce, neverTrailers }: ChunkRules = {}) {
    this.#neverTrailers = neverTrailers;
    this.lines = lines ?? "dropped";
    this.#refusesExtensions = refusesExtensions ?? false;
    this.#chunksAtOnce = chunksAtOnce ?? Number.MAX_SAFE_INTEGER;
  }

  get ended(): boolean {
    return this.#state === State.Ended;
  }

  get left(): number {
    return this.#state === State.Content ? this.#left : 0;
  }

  skip(bytes: number): void {
    this.#left -= bytes;
    if (this.#left === 0) this.#state = State.ContentCr;
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    const end = bytes.length;
    let gathered = 0;
    let at = 0;
    for (let chunks = 0; at < end && chunks < this.#chunksAtOnce && !this.ended; ) {
      let length = 0;
      let isPassedOn = this.lines !== "dropped";
      if (this.#state === State.Content) {
        length = Math.min(this.#left, end - at);
        isPassedOn = true;
        chunks += 1;
        this.#left -= length;
        if (this.#left === 0) this.#state = State.ContentCr;
      } else length = this.#takeWholeLine(bytes, at);
      if (length === 0) {
        const before = this.#state;
        length = 1;
        this.#takeByte(bytes[at] as number);
        if (this.lines === "plain") isPassedOn = isOfPlainLine(before, this.#state);
      }
      if (isPassedOn) {
        move(bytes, at, length, gathered);
        gathered += length;
      }
      at += length;
    }
    this.surplus = this.ended ? end - at : 0;
    this.untaken = this.ended ? 0 : end - at;
    return bytes.subarray(0, gathered);
  }

  /** Nearly all sizes stand alone on their line and arrive complete. Returns 0 for others: read them byte by byte. */
  #takeWholeLine(bytes: Buffer, start: number): number {
    let at = start;
    let size = 0;
    if (this.#state === State.SizeStart) {
      for (let digit = hex(bytes, at); digit < NO_DIGIT && at - start <= SIZE_DIGITS_MAX; digit = hex(bytes, at)) {
        size = size * 16 + digit;
        at += 1;
      }
      if (size === 0 || at - start > SIZE_DIGITS_MAX) return 0;
    } else if (this.#state !== State.ContentCr) return 0;
    if (bytes[at] !== CARRIAGE_RETURN || bytes[at + 1] !== LINE_FEED) return 0;
    this.#left = size;
    this.#state = size > 0 ? State.Content : State.SizeStart;
    return at + 2 - start;
  }

  /** Takes a byte outside the content. */
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

  /** Takes a byte after a chunk's size, or of a trailer. */
  #takeRestOfLine(byte: number): void {
    if (++this.#lineBytes > CHUNK_LINE_MAX_BYTES) throw new Error("the body has too long a line");
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
      case State.TrailerName:
      case State.TrailerValue:
        this.#takeTrailer(byte);
        return;
      default:
        this.#takeBehindSize(byte);
    }
  }

  #takeBehindSize(byte: number): void {
    if (byte === CARRIAGE_RETURN) this.#state = State.SizeLf;
    else if (this.#refusesExtensions) throw new Error("the body has a chunk with an extension");
    else if (byte === SEMICOLON) this.#state = State.Extension;
    else if (byte === TAB || byte === SPACE) return;
    else if (this.#state !== State.Extension || byte < SPACE || byte === DELETE) {
      throw new Error("the body has a chunk without a length");
    }
  }

  #takeTrailer(byte: number): void {
    if (this.#state === State.TrailerStart) {
      if (byte === CARRIAGE_RETURN) {
        this.#state = State.LastLf;
        return;
      }
      if (++this.#trailers > CHUNK_TRAILERS_MAX) throw new Error("the body has too many trailers");
      this.#trailerName = "";
      this.#state = State.TrailerName;
    }
    if (this.#state === State.TrailerName) {
      if (IN_TOKEN[byte] === 1) this.#trailerName += String.fromCharCode(byte);
      else if (byte === COLON && this.#trailerName !== "") this.#takeTrailerName(this.#trailerName.toLowerCase());
      else throw new Error("the body has a malformed trailer");
    } else if (byte === CARRIAGE_RETURN) this.#state = State.TrailerLf;
    else if (IN_VALUE[byte] !== 1) throw new Error("the body has a malformed trailer");
  }

  #takeTrailerName(name: string): void {
    const isNever = NEVER_TRAILERS.has(name) || this.#neverTrailers?.has(name.replaceAll("_", "-"));
    if (isNever) throw new Error(`the body has the trailer ${name}`);
    this.#state = State.TrailerValue;
  }
}

/** Longest end of a chunk's content and size line of the next chunk, without an extension. */
export const CHUNK_LINES_MAX_BYTES = 2 + SIZE_DIGITS_MAX + 2;
const UP_TO_CONTENT_END = "1\r\nx";

/**
 * Where the next chunk ends, given the bytes behind the content of a chunk: lines and content. 0: it is the last one,
 * has an extension or is malformed. Undefined: more bytes are needed.
 */
export function chunkAhead(bytes: Uint8Array): number | undefined {
  const body = new ChunkedBody({ refusesExtensions: true });
  body.take(Buffer.from(UP_TO_CONTENT_END));
  try {
    for (const [at, byte] of bytes.subarray(0, CHUNK_LINES_MAX_BYTES).entries()) {
      body.take(Buffer.of(byte));
      if (body.left > 0) return at + 1 + body.left;
    }
  } catch {
    return 0;
  }
  return body.ended || bytes.length >= CHUNK_LINES_MAX_BYTES ? 0 : undefined;
}

/** Whether the byte that led from one state to the next belongs to no extension and no trailer. */
function isOfPlainLine(before: State, after: State): boolean {
  if (after === State.BehindSize || after === State.Extension) return false;
  return before !== State.TrailerLf && (after < State.TrailerName || after > State.TrailerLf);
}

function hex(bytes: Buffer, at: number): number {
  return at < bytes.length ? (HEX_DIGITS[bytes[at] as number] as number) : NO_DIGIT;
}

/** Like `copyWithin`, but without the cost of its call for a tiny chunk. */
function move(bytes: Buffer<ArrayBuffer>, from: number, count: number, to: number): void {
  if (from === to) return;
  if (count > MOVED_BY_HAND_MAX_BYTES) bytes.copyWithin(to, from, from + count);
  else for (let at = 0; at < count; at += 1) bytes[to + at] = bytes[from + at] as number;
}
