/**
 * A client's HTTP/2 connection: the socket as the library wants it, and the bodies of requests and answers, which go
 * past the library. Windows are counted accordingly: the library counts none of the DATA that it does not see.
 */
import { Duplex } from "node:stream";
import type { Socket } from "bun";
import {
  EDGE_ANSWER_WAITING_MAX_BYTES,
  EDGE_HELD_MIN_BYTES,
  EDGE_HTTP2_UNTAKEN_MAX_BYTES,
  EDGE_HTTP2_UNTAKEN_MS,
  EDGE_HTTP2_WINDOW_BYTES,
  EDGE_JOINED_PIECE_MAX_BYTES,
  EDGE_KEEPALIVE_MS,
} from "../limits.ts";
import {
  DATA,
  FRAME_HEAD_BYTES,
  FRAME_MAX_BYTES,
  type FrameTaker,
  frameHead,
  Http2Frames,
  WINDOW_UPDATE,
  writeFrameHead,
} from "./http2-frames.ts";
import { Reading } from "./reading.ts";

/** Of one connection, in one turn: each takes some microseconds, whatever it carries. */
export const EDGE_HTTP2_FRAMES_AT_ONCE_MAX = 64;

type Bytes = Buffer<ArrayBuffer>;

/** A request on the connection. */
export interface Http2Carried {
  readonly id: number;
  /** Of the body of the request, as far as it has come and nobody has taken it. */
  readonly untakenBytes: number;
  /** Its sandbox has used up its share of what this process holds for all. */
  readonly isSpent: boolean;
  /** Ends the request, so that nothing is kept of it. */
  refuseBody(): void;
  /** DATA of so many bytes comes. False: its body has ended. */
  bodyComes(bytes: number): boolean;
  bodyCame(content: Bytes): void;
  /** True: the library is to know. */
  bodyEnded(): boolean;
  /** What the client takes of the answer, besides its initial window. */
  window: number;
  /** There is room to send more of the answer. */
  flush(): void;
}

/** RFC 9113, 6.9.2. */
const INITIAL_WINDOW = 65_535;
const WINDOW_MAX = 2 ** 31 - 1;
/** Its own window is opened anew when so much of it is used up, or with that of a stream, if that comes first. */
const WINDOW_STEP_BYTES = (EDGE_HTTP2_WINDOW_BYTES * 5) / 8;
/** Frames of an answer are put together here, for one write. All connections share it: what is not sent is copied. */
const FRAMES_AT_ONCE = 8;
const SENDING = Buffer.alloc(FRAMES_AT_ONCE * (FRAME_HEAD_BYTES + FRAME_MAX_BYTES));

export class Http2Connection extends Duplex implements FrameTaker {
  readonly #socket: Socket<unknown>;
  /** Not sent yet, and who is to be told when it is. */
  #unsent: { bytes: Buffer; sent?: (failure?: Error) => void }[] = [];
  readonly #frames = new Http2Frames(this);
  readonly #reading = new Reading({
    take: (bytes) => this.#take(bytes),
    stopReading: () => void (this.#isClosed || this.#socket.pause()),
    goOnReading: () => void (this.#isClosed || this.#socket.resume()),
  });
  #isPaused = false;
  #isClosed = false;
  readonly #requests = new Map<number, Http2Carried>();
  /** Whose answers wait for a window or for the socket, in turns. */
  readonly #waiting = new Set<Http2Carried>();
  #window = INITIAL_WINDOW;
  #initialWindow = INITIAL_WINDOW;
  /** DATA that came since the client was last told that it may send more. */
  #receivedBytes = 0;
  /** Since when the connection is not read because of bodies of which nothing is taken. */
  #stuckSinceMs: number | undefined;
  #heardMs = performance.now();

  constructor(socket: Socket<unknown>) {
    super();
    this.#socket = socket;
    socket.setKeepAlive(true, EDGE_KEEPALIVE_MS);
    // Whoever owns the stream hears of the close that follows.
    this.on("error", () => undefined);
  }

  get remoteAddress(): string {
    return this.#socket.remoteAddress;
  }

  requestBegun(request: Http2Carried): void {
    this.#requests.set(request.id, request);
  }

  requestOver(request: Http2Carried): void {
    this.#requests.delete(request.id);
    this.#waiting.delete(request);
    if (this.#requests.size === 0) this.#reading.beginAnew();
    this.#heardMs = performance.now();
    this.bodyTaken();
  }

  /** A service took something of a body. */
  bodyTaken(): void {
    this.#stuckSinceMs = undefined;
    this.#readOn();
  }

  /** The client may send so much more of the body of this stream, and as much of all as has come. */
  open(stream: number, bytes: number): void {
    const frames = stream === 0 ? [] : [windowUpdate(stream, bytes)];
    if (this.#receivedBytes > 0) frames.push(windowUpdate(0, this.#receivedBytes));
    this.#receivedBytes = 0;
    if (!this.#isClosed) this.write(Buffer.concat(frames));
  }

  /**
   * Sends what the client and the socket take of an answer, and tells how much that was. `flush` is called when there
   * is room for more.
   */
  send(request: Http2Carried, bytes: Bytes): number {
    let sent = 0;
    for (;;) {
      const most = Math.min(bytes.length - sent, this.#window, this.#initialWindow + request.window);
      const next = most > 0 ? this.#sendFrames(request.id, bytes.subarray(sent, sent + most)) : 0;
      if (next === 0) break;
      sent += next;
      this.#window -= next;
      request.window -= next;
    }
    if (sent < bytes.length) this.#waiting.add(request);
    return sent;
  }

  /** None while something else waits to be sent: that is before it. */
  #sendFrames(stream: number, bytes: Bytes): number {
    const isCorked = this.writableCorked > 0 && bytes.length <= EDGE_JOINED_PIECE_MAX_BYTES;
    if (this.#isClosed || this.#unsent.length > 0 || (this.writableLength > 0 && !isCorked)) return 0;
    let [at, end] = [0, 0];
    while (at < bytes.length && end < SENDING.length) {
      const length = Math.min(bytes.length - at, FRAME_MAX_BYTES);
      writeFrameHead(SENDING, end, length, DATA, 0, stream);
      bytes.copy(SENDING, end + FRAME_HEAD_BYTES, at, at + length);
      at += length;
      end += FRAME_HEAD_BYTES + length;
    }
    const frames = SENDING.subarray(0, end);
    if (isCorked) this.write(Buffer.from(frames));
    else {
      const count = Math.max(this.#socket.write(frames), 0);
      if (count < end) this.#unsent.push({ bytes: Buffer.from(frames.subarray(count)) });
    }
    return at;
  }

  /** Ends the largest bodies if nothing was taken of any for too long. */
  lookForStuck(nowMs: number): void {
    // Others may have left room since.
    this.#readOn();
    if (!this.#isPaused || this.#untakenBytes < this.#untakenMaxBytes) return;
    this.#stuckSinceMs ??= nowMs;
    if (nowMs < this.#stuckSinceMs + EDGE_HTTP2_UNTAKEN_MS) return;
    const largest = [...this.#requests.values()].sort((a, b) => b.untakenBytes - a.untakenBytes);
    let left = this.#untakenBytes;
    const most = this.#untakenMaxBytes / 2;
    for (const request of largest) {
      if (left < most) break;
      left -= request.untakenBytes;
      request.refuseBody();
    }
  }

  get #untakenBytes(): number {
    let bytes = 0;
    for (const { untakenBytes } of this.#requests.values()) bytes += untakenBytes;
    return bytes;
  }

  get #untakenMaxBytes(): number {
    for (const { untakenBytes, isSpent } of this.#requests.values()) {
      if (isSpent && untakenBytes >= EDGE_HELD_MIN_BYTES) return EDGE_HELD_MIN_BYTES;
    }
    return EDGE_HTTP2_UNTAKEN_MAX_BYTES;
  }

  /** Nothing is asked for on it, and has not been since then. Null: something is. */
  get silentSinceMs(): number | null {
    return this.#requests.size > 0 ? null : this.#heardMs;
  }

  received(bytes: Bytes): void {
    this.#heardMs = performance.now();
    this.#reading.data(bytes);
  }

  /** No more frames than take a moment; the others come in another turn. */
  #take(bytes: Bytes): void {
    if (this.#isClosed) return;
    const rest = this.#frames.take(bytes, EDGE_HTTP2_FRAMES_AT_ONCE_MAX);
    if (rest !== undefined) this.#reading.later(rest);
    if (!this.#isFull) return;
    this.#isPaused = true;
    this.#reading.hold();
  }

  pass(bytes: Bytes): void {
    if (!this.#isClosed) this.emit("data", bytes);
  }

  takesData(stream: number, bytes: number): boolean {
    if (this.#requests.get(stream)?.bodyComes(bytes) !== true) return false;
    this.#receivedBytes += bytes;
    if (this.#receivedBytes >= WINDOW_STEP_BYTES) this.open(0, 0);
    return true;
  }

  data(stream: number, content: Bytes): void {
    this.#requests.get(stream)?.bodyCame(content);
  }

  dataEnded(stream: number): boolean {
    return this.#requests.get(stream)?.bodyEnded() ?? true;
  }

  windowOpened(stream: number, bytes: number): boolean {
    const request = this.#requests.get(stream);
    if (stream !== 0 && request === undefined) return false;
    const wasClosed = this.#window <= 0;
    if (request === undefined) this.#window += bytes;
    else request.window += bytes;
    const window = request === undefined ? this.#window : this.#initialWindow + request.window;
    // RFC 9113, 6.9.1. The library would not know of what it did not count.
    if (window > WINDOW_MAX) this.cut();
    else if (request === undefined && wasClosed) this.#flushAnswers();
    else if (request !== undefined && this.#waiting.delete(request)) request.flush();
    return true;
  }

  initialWindow(bytes: number): void {
    this.#initialWindow = bytes;
    this.#flushAnswers();
  }

  drained(): void {
    while (this.#unsent.length > 0) {
      const [next] = this.#unsent.splice(0, 1);
      if (next === undefined || !this.#write(next.bytes, next.sent)) break;
    }
    this.#flushAnswers();
    this.#readOn();
  }

  /** Who has sent something is the last the next time. */
  #flushAnswers(): void {
    for (const request of [...this.#waiting]) {
      if (this.#window <= 0 || this.#unsent.length > 0) return;
      this.#waiting.delete(request);
      request.flush();
    }
  }

  /** Heads of answers wait for no window: who takes none is asked for nothing more. */
  get #isFull(): boolean {
    return this.writableLength >= EDGE_ANSWER_WAITING_MAX_BYTES || this.#untakenBytes >= this.#untakenMaxBytes;
  }

  socketClosed(): void {
    this.#isClosed = true;
    this.#reading.drop();
    this.destroy();
  }

  cut(): void {
    if (!this.#isClosed) this.#socket.terminate();
  }

  #readOn(): void {
    if (!this.#isPaused || this.#isClosed || this.#isFull) return;
    this.#isPaused = false;
    this.#reading.release();
  }

  override _read(): void {
    // What comes is passed to the library at once.
  }

  override _write(bytes: Buffer, _encoding: string, sent: (failure?: Error) => void): void {
    if (this.#unsent.length > 0) this.#unsent.push({ bytes, sent });
    else this.#write(bytes, sent);
  }

  override _writev(pieces: { chunk: Buffer }[], sent: (failure?: Error | null) => void): void {
    this._write(Buffer.concat(pieces.map(({ chunk }) => chunk)), "buffer", sent);
  }

  override _final(done: () => void): void {
    if (!this.#isClosed) this.#socket.end();
    done();
  }

  override _destroy(failure: Error | null, done: (failure?: Error | null) => void): void {
    this.cut();
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const { sent } of unsent) sent?.(new Error("the connection is closed"));
    done(failure);
  }

  /** False: the rest waits for `drained`, before all that waits already. */
  #write(bytes: Buffer, sent?: (failure?: Error) => void): boolean {
    const count = this.#isClosed ? -1 : this.#socket.write(bytes);
    const isSent = count === bytes.length;
    if (this.#isClosed) sent?.(new Error("the connection is closed"));
    else if (isSent) sent?.();
    else this.#unsent.unshift(sent === undefined ? { bytes: rest(bytes, count) } : { bytes: rest(bytes, count), sent });
    return isSent;
  }
}

function windowUpdate(stream: number, bytes: number): Buffer {
  const content = Buffer.allocUnsafe(4);
  content.writeUInt32BE(bytes);
  return Buffer.concat([frameHead(content.length, WINDOW_UPDATE, 0, stream), content]);
}

function rest(bytes: Buffer, sent: number): Buffer {
  return bytes.subarray(Math.max(sent, 0));
}
