/**
 * A client's HTTP/2 connection: adapts the socket to Node's HTTP/2 library and carries the bodies of requests and
 * responses past it. Flow-control windows are counted here, because the library does not see that DATA.
 */
import { Duplex } from "node:stream";
import type { Socket } from "bun";
import { Reading } from "../flow/reading.ts";
import {
  EDGE_HELD_MIN_BYTES,
  EDGE_HTTP2_WINDOW_BYTES,
  EDGE_JOINED_PIECE_MAX_BYTES,
  EDGE_KEEPALIVE_MS,
  EDGE_RESPONSE_WAITING_MAX_BYTES,
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

/**
 * Unread request bodies of one connection; above this it is not read. The connection's window opens whether or not
 * services read, so that one slow service does not delay the others.
 */
export const EDGE_HTTP2_UNREAD_MAX_BYTES = 16 * 1024 * 1024;

/** After this time without progress the largest unread bodies are reset: they may hold up bytes that services need. */
export const EDGE_HTTP2_UNREAD_MS = 30_000;

/** Maximum frames of one connection per turn: each takes some microseconds, whatever it carries. */
export const EDGE_HTTP2_FRAMES_AT_ONCE_MAX = 64;

type Bytes = Buffer<ArrayBuffer>;

/** A request on the connection. */
export interface Http2Carried {
  readonly id: number;
  /** Bytes of the request body that have arrived and were not taken. */
  readonly unreadBytes: number;
  /** Whether the request's sandbox has used up its share of held bytes. */
  readonly isSpent: boolean;
  /** Ends the request and drops everything held for it. */
  refuseBody(): void;
  /** A DATA frame of this size arrives. Returns false if the body has ended. */
  acceptData(bytes: number): boolean;
  receiveData(content: Bytes): void;
  /** Returns true if the library must see the end. */
  bodyEnded(): boolean;
  /** The client's window for the response, relative to the initial window. */
  window: number;
  /** Called when there is room to send more of the response. */
  flush(): void;
}

/** RFC 9113, 6.9.2. */
const INITIAL_WINDOW = 65_535;
const WINDOW_MAX = 2 ** 31 - 1;
/**
 * The connection's window is opened again when so much of it is used up, or with that of a stream, if that comes first.
 * The library counts DATA of closed streams by itself and opens the window after half of it. Both steps together must
 * be less than the window: otherwise a client could wait for an update that never comes.
 */
const WINDOW_STEP_BYTES = (EDGE_HTTP2_WINDOW_BYTES * 3) / 8;
/** Frames of an answer are put together here, for one write. All connections share it: what is not sent is copied. */
const FRAMES_AT_ONCE = 8;
const SENDING = Buffer.alloc(FRAMES_AT_ONCE * (FRAME_HEAD_BYTES + FRAME_MAX_BYTES));

export class Http2Connection extends Duplex implements FrameTaker {
  readonly #socket: Socket<unknown>;
  /** Unsent bytes, with the callback for when they are sent. */
  #unsent: { bytes: Buffer; sent?: (failure?: Error) => void }[] = [];
  readonly #frames = new Http2Frames(this);
  readonly #reading = new Reading({
    take: (bytes) => this.#take(bytes),
    pauseReading: () => void (this.#isClosed || this.#socket.pause()),
    resumeReading: () => void (this.#isClosed || this.#socket.resume()),
  });
  #isPaused = false;
  #isClosed = false;
  readonly #requests = new Map<number, Http2Carried>();
  /** Requests whose responses wait for a window or the socket, in turn. */
  readonly #waiting = new Set<Http2Carried>();
  #window = INITIAL_WINDOW;
  #initialWindow = INITIAL_WINDOW;
  /** Bytes of DATA since the last window update. */
  #receivedBytes = 0;
  /** Since when reading is paused because no body is being taken. */
  #stuckSinceMs: number | undefined;
  #heardMs = performance.now();

  constructor(socket: Socket<unknown>) {
    super();
    this.#socket = socket;
    socket.setKeepAlive(true, EDGE_KEEPALIVE_MS);
    // The owner of the stream sees the close event that follows.
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

  /** A service took a part of a body. */
  bodyTaken(): void {
    this.#stuckSinceMs = undefined;
    this.#readOn();
  }

  /** Reopens the stream's window by this much, and the connection's by everything received. */
  open(stream: number, bytes: number): void {
    const frames = stream === 0 ? [] : [windowUpdate(stream, bytes)];
    if (this.#receivedBytes > 0) frames.push(windowUpdate(0, this.#receivedBytes));
    this.#receivedBytes = 0;
    if (!this.#isClosed) this.write(Buffer.concat(frames));
  }

  /**
   * Sends as much of a response as the windows and the socket take; returns the number of bytes. `flush` is called when
   * there is room for more.
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

  /** Sends nothing while earlier bytes wait. */
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

  /** Ends the largest bodies if none was taken for too long. */
  checkStalled(nowMs: number): void {
    // Other connections may have released budget since.
    this.#readOn();
    if (!this.#isPaused || this.#unreadBytes < this.#unreadMaxBytes) return;
    this.#stuckSinceMs ??= nowMs;
    if (nowMs < this.#stuckSinceMs + EDGE_HTTP2_UNREAD_MS) return;
    const largest = [...this.#requests.values()].sort((a, b) => b.unreadBytes - a.unreadBytes);
    let left = this.#unreadBytes;
    const most = this.#unreadMaxBytes / 2;
    for (const request of largest) {
      if (left < most) break;
      left -= request.unreadBytes;
      request.refuseBody();
    }
  }

  get #unreadBytes(): number {
    let bytes = 0;
    for (const { unreadBytes } of this.#requests.values()) bytes += unreadBytes;
    return bytes;
  }

  get #unreadMaxBytes(): number {
    for (const { unreadBytes, isSpent } of this.#requests.values()) {
      if (isSpent && unreadBytes >= EDGE_HELD_MIN_BYTES) return EDGE_HELD_MIN_BYTES;
    }
    return EDGE_HTTP2_UNREAD_MAX_BYTES;
  }

  get isIdle(): boolean {
    return this.#requests.size === 0;
  }

  /** Since when the connection has had no requests; null while it has some. */
  get silentSinceMs(): number | null {
    return this.isIdle ? this.#heardMs : null;
  }

  received(bytes: Bytes): void {
    this.#heardMs = performance.now();
    this.#reading.data(bytes);
  }

  /** Reads a bounded number of frames; the rest waits for another turn. */
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
    if (this.#requests.get(stream)?.acceptData(bytes) !== true) return false;
    this.#receivedBytes += bytes;
    if (this.#receivedBytes >= WINDOW_STEP_BYTES) this.open(0, 0);
    return true;
  }

  data(stream: number, content: Bytes): void {
    this.#requests.get(stream)?.receiveData(content);
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
    // RFC 9113, 6.9.1. Checked here, because the library does not count these bytes.
    if (window > WINDOW_MAX) this.cut();
    else if (request === undefined && wasClosed) this.#flushAnswers();
    else if (request !== undefined && this.#waiting.delete(request)) request.flush();
    return true;
  }

  initialWindow(bytes: number): void {
    const isWider = bytes > this.#initialWindow;
    this.#initialWindow = bytes;
    // RFC 9113, 6.9.2.
    for (const { window } of this.#requests.values()) if (bytes + window > WINDOW_MAX) this.cut();
    if (isWider) this.#flushAnswers();
  }

  drained(): void {
    while (this.#unsent.length > 0) {
      const [next] = this.#unsent.splice(0, 1);
      if (next === undefined || !this.#write(next.bytes, next.sent)) break;
    }
    this.#flushAnswers();
    this.#readOn();
  }

  /** Requests that have sent something go to the end of the queue. */
  #flushAnswers(): void {
    for (const request of [...this.#waiting]) {
      if (this.#window <= 0 || this.#unsent.length > 0) return;
      this.#waiting.delete(request);
      request.flush();
    }
  }

  /** Response heads are not flow-controlled: a client that reads none gets no further requests served. */
  get #isFull(): boolean {
    return this.writableLength >= EDGE_RESPONSE_WAITING_MAX_BYTES || this.#unreadBytes >= this.#unreadMaxBytes;
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
    // Incoming bytes are passed to the library at once.
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

  /** Returns false if the rest waits for `drained`, ahead of other waiting bytes. */
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
