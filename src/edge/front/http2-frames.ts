/**
 * Reads the frames of an HTTP/2 client. DATA content bypasses the library, which would copy each frame into an object.
 * Window updates are counted here for the same reason. All other frames go to the library unchanged.
 */

type Bytes = Buffer<ArrayBuffer>;

/** The client's connection preface (RFC 9113, 3.4). */
const PREFACE_BYTES = 24;
export const FRAME_HEAD_BYTES = 9;
/** RFC 9113, 6.5.2: the edge announces no other maximum, and a client cannot require a smaller one. */
export const FRAME_MAX_BYTES = 16_384;
export const [DATA, WINDOW_UPDATE] = [0, 8] as const;
const [HEADERS, SETTINGS, CONTINUATION] = [1, 4, 9];
const END_STREAM = 1;
const END_HEADERS = 4;
const ACKNOWLEDGED = 1;
const PADDED = 8;
const SETTING_BYTES = 6;
const INITIAL_WINDOW_SIZE = 4;
const STREAM_MASK = 0x7fffffff;

export interface FrameTaker {
  /** Frames or parts of frames for the library, in order. The bytes are valid only during the call. */
  pass(bytes: Bytes): void;
  /** A DATA frame begins that counts this much against the client's windows. False: pass it to the library. */
  takesData(stream: number, bytes: number): boolean;
  /** Content of DATA frames. The receiver owns the whole buffer. */
  data(stream: number, content: Bytes): void;
  /** The last DATA frame has arrived. True: the library gets an empty one in its place. */
  dataEnded(stream: number): boolean;
  /** The client opens the window of one stream or of the connection (0). False: pass the frame to the library. */
  windowOpened(stream: number, bytes: number): boolean;
  /** The client sets the initial window of streams. */
  initialWindow(bytes: number): void;
}

export class Http2Frames {
  /** Bytes left of the current frame. */
  #left = PREFACE_BYTES;
  /** The stream of the current frame, if its content is read here. */
  #stream: number | undefined;
  #padding = 0;
  #isLast = false;
  /** A header block has begun, and its last frame has not come. */
  #isInHeaders = false;
  /** The beginning of a frame that is too short so far to identify. */
  #begun: Bytes | undefined;

  constructor(private readonly taker: FrameTaker) {}

  /** Reads at most `most` frames and returns the bytes after them. */
  take(arrived: Bytes, maxFrames: number): Bytes | undefined {
    const bytes = this.#begun === undefined ? arrived : Buffer.concat([this.#begun, arrived]);
    this.#begun = undefined;
    const reading = new Gathering(bytes, this.taker);
    let at = 0;
    for (let frames = 0; ; frames++) {
      at = this.#takeContent(reading, at);
      if (at === bytes.length || frames === maxFrames) break;
      const after = this.#takeHead(reading, at);
      if (after === undefined) {
        this.#begun = Buffer.from(bytes.subarray(at));
        reading.pass(at);
        reading.skip(bytes.length);
        at = bytes.length;
        break;
      }
      at = after;
    }
    reading.finish(at);
    return at < bytes.length ? bytes.subarray(at) : undefined;
  }

  #takeContent(reading: Gathering, at: number): number {
    const end = Math.min(reading.bytes.length, at + this.#left);
    const contentEnd = Math.min(end, at + Math.max(0, this.#left - this.#padding));
    this.#left -= end - at;
    const stream = this.#stream;
    if (stream === undefined) return end;
    reading.add(stream, at, contentEnd);
    reading.skip(end);
    if (this.#left > 0) return end;
    this.#stream = undefined;
    if (this.#isLast) reading.last(stream);
    return end;
  }

  /** Where the frame's content begins, or undefined if more bytes are needed to identify it. */
  #takeHead(reading: Gathering, at: number): number | undefined {
    const { bytes } = reading;
    if (bytes.length < at + FRAME_HEAD_BYTES) return undefined;
    const [length, kind, flags = 0] = [bytes.readUIntBE(at, 3), bytes[at + 3], bytes[at + 4]];
    const stream = bytes.readUInt32BE(at + 5) & STREAM_MASK;
    const content = at + FRAME_HEAD_BYTES;
    // The library ends the connection because of it: no other frame may be inside a header block (RFC 9113, 6.10).
    const isRefused = length > FRAME_MAX_BYTES || this.#isInHeaders;
    const isCounted = kind === WINDOW_UPDATE || (kind === SETTINGS && (flags & ACKNOWLEDGED) === 0);
    if (!isRefused && isCounted) {
      if (bytes.length < content + length) return undefined;
      reading.pass(at);
      if (this.#count(kind, stream, bytes.subarray(content, content + length))) {
        reading.skip(content + length);
        return content + length;
      }
    }
    const isPadded = kind === DATA && (flags & PADDED) !== 0;
    if (isPadded && length > 0 && bytes.length === content) return undefined;
    this.#left = length;
    if (kind === HEADERS || kind === CONTINUATION) this.#isInHeaders = (flags & END_HEADERS) === 0;
    if (isRefused || kind !== DATA) return content;
    const padding = isPadded ? (bytes[content] ?? 0) + 1 : 0;
    if (padding > length || (isPadded && length === 0)) return content;
    // Passed first, because earlier frames may open this stream.
    reading.pass(at);
    if (!this.taker.takesData(stream, length)) return content;
    [this.#stream, this.#isLast] = [stream, (flags & END_STREAM) !== 0];
    this.#padding = Math.max(0, padding - 1);
    const first = isPadded ? content + 1 : content;
    this.#left -= first - content;
    reading.skip(first);
    return first;
  }

  /** Returns true if the library need not see the frame. */
  #count(kind: number, stream: number, content: Bytes): boolean {
    if (kind === WINDOW_UPDATE) {
      const bytes = content.length === 4 ? content.readUInt32BE(0) & STREAM_MASK : 0;
      return bytes > 0 && this.taker.windowOpened(stream, bytes);
    }
    // Only the last counts: a frame has room for thousands, and each would make all waiting answers try to send.
    let window: number | undefined;
    for (let at = 0; at + SETTING_BYTES <= content.length; at += SETTING_BYTES) {
      if (content.readUInt16BE(at) === INITIAL_WINDOW_SIZE) window = content.readUInt32BE(at + 2);
    }
    if (window !== undefined) this.taker.initialWindow(window);
    return false;
  }
}

/** Moves content of one stream within the arrived bytes together, in place, over the frame heads in between. */
class Gathering {
  readonly bytes: Bytes;
  /** Start of the bytes not yet passed to the library. */
  #unpassed = 0;
  #stream = 0;
  #from = 0;
  #to = 0;

  constructor(
    bytes: Bytes,
    private readonly taker: FrameTaker,
  ) {
    this.bytes = bytes;
  }

  add(stream: number, from: number, to: number): void {
    if (from === to) return;
    if (this.#stream !== stream) {
      this.#deliver(false);
      [this.#stream, this.#from, this.#to] = [stream, from, from];
    }
    if (this.#to !== from) this.bytes.copyWithin(this.#to, from, to);
    this.#to += to - from;
  }

  /** Passes the bytes before this position to the library. */
  pass(to: number): void {
    if (to <= this.#unpassed) return;
    this.#deliver(false);
    const from = this.#unpassed;
    this.#unpassed = to;
    this.taker.pass(this.bytes.subarray(from, to));
  }

  /** Skips the bytes before this position. */
  skip(to: number): void {
    this.#unpassed = to;
  }

  last(stream: number): void {
    this.#deliver(false);
    if (this.taker.dataEnded(stream)) this.taker.pass(frameHead(0, DATA, END_STREAM, stream));
  }

  finish(at: number): void {
    this.pass(at);
    this.#deliver(at === this.bytes.length);
  }

  /** Copies unless the rest of the buffer is no longer needed. */
  #deliver(isAll: boolean): void {
    const [stream, from, to] = [this.#stream, this.#from, this.#to];
    this.#stream = 0;
    if (stream === 0) return;
    const content = this.bytes.subarray(from, to);
    this.taker.data(stream, isAll ? content : Buffer.from(content));
  }
}

export function frameHead(length: number, kind: number, flags: number, stream: number): Bytes {
  const head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
  writeFrameHead(head, 0, length, kind, flags, stream);
  return head;
}

export function writeFrameHead(
  into: Bytes,
  at: number,
  length: number,
  kind: number,
  flags: number,
  stream: number,
): void {
  into.writeUIntBE(length, at, 3);
  into[at + 3] = kind;
  into[at + 4] = flags;
  into.writeUInt32BE(stream, at + 5);
}
