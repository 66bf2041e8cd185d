/** A client's connection as a stream of Node, which is what speaks HTTP/2 takes. */
import { Duplex } from "node:stream";
import type { Socket } from "bun";
import {
  EDGE_ANSWER_WAITING_MAX_BYTES,
  EDGE_HTTP2_FRAMES_AT_ONCE_MAX,
  EDGE_HTTP2_UNTAKEN_MAX_BYTES,
  EDGE_HTTP2_UNTAKEN_MS,
  EDGE_KEEPALIVE_MS,
} from "../limits.ts";
import { Http2Frames } from "./http2-frames.ts";
import { Reading } from "./reading.ts";

type Bytes = Buffer<ArrayBuffer>;

/** The body of a request, as far as it has come and nobody has taken it. */
export interface UntakenBody {
  readonly untakenBytes: number;
  /** Ends the request, so that nothing is kept of it. */
  refuseBody(): void;
}

export class SocketDuplex extends Duplex {
  readonly #socket: Socket<unknown>;
  #unsent: Buffer | undefined;
  #sent: ((failure?: Error) => void) | undefined;
  readonly #frames = new Http2Frames();
  readonly #reading = new Reading({
    take: (bytes) => this.#take(bytes),
    stopReading: () => void (this.#isClosed || this.#socket.pause()),
    goOnReading: () => void (this.#isClosed || this.#socket.resume()),
  });
  #isPaused = false;
  #isClosed = false;
  readonly #requests = new Set<UntakenBody>();
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

  requestBegun(request: UntakenBody): void {
    this.#requests.add(request);
  }

  requestOver(request: UntakenBody): void {
    this.#requests.delete(request);
    if (this.#requests.size === 0) this.#reading.beginAnew();
    this.#heardMs = performance.now();
    this.bodyTaken();
  }

  /** A service took something of a body. */
  bodyTaken(): void {
    this.#stuckSinceMs = undefined;
    this._read();
  }

  /** Ends the largest bodies if nothing was taken of any for too long. */
  lookForStuck(nowMs: number): void {
    if (!this.#isPaused || this.#untakenBytes < EDGE_HTTP2_UNTAKEN_MAX_BYTES) return;
    this.#stuckSinceMs ??= nowMs;
    if (nowMs < this.#stuckSinceMs + EDGE_HTTP2_UNTAKEN_MS) return;
    const largest = [...this.#requests].sort((a, b) => b.untakenBytes - a.untakenBytes);
    let left = this.#untakenBytes;
    for (const request of largest) {
      if (left < EDGE_HTTP2_UNTAKEN_MAX_BYTES / 2) break;
      left -= request.untakenBytes;
      request.refuseBody();
    }
  }

  get #untakenBytes(): number {
    let bytes = 0;
    for (const { untakenBytes } of this.#requests) bytes += untakenBytes;
    return bytes;
  }

  /** Nothing is asked for on it, and has not been since then. Null: something is. */
  get silentSinceMs(): number | null {
    return this.#requests.size > 0 ? null : this.#heardMs;
  }

  data(bytes: Bytes): void {
    this.#heardMs = performance.now();
    this.#reading.data(bytes);
  }

  /** No more frames than take a moment; the others come in another turn. */
  #take(bytes: Bytes): void {
    if (this.#isClosed) return;
    const end = this.#frames.take(bytes, EDGE_HTTP2_FRAMES_AT_ONCE_MAX);
    const hasRoom = this.push(bytes.subarray(0, end));
    if (end < bytes.length) this.#reading.later(bytes.subarray(end));
    if (hasRoom && !this.#isFull) return;
    this.#isPaused = true;
    this.#reading.hold();
  }

  drained(): void {
    const { write, rest } = this.#pending();
    if (write !== undefined && rest !== undefined) this.#send(rest, write);
    this._read();
  }

  /** Heads of answers wait for no window: who takes none is asked for nothing more. */
  get #isFull(): boolean {
    return this.writableLength >= EDGE_ANSWER_WAITING_MAX_BYTES || this.#untakenBytes >= EDGE_HTTP2_UNTAKEN_MAX_BYTES;
  }

  socketClosed(): void {
    this.#isClosed = true;
    this.#reading.drop();
    this.destroy();
  }

  cut(): void {
    if (!this.#isClosed) this.#socket.terminate();
  }

  override _read(): void {
    if (!this.#isPaused || this.#isClosed || this.#isFull) return;
    this.#isPaused = false;
    this.#reading.release();
  }

  override _write(bytes: Buffer, _encoding: string, sent: (failure?: Error) => void): void {
    this.#send(bytes, sent);
  }

  override _final(done: () => void): void {
    if (!this.#isClosed) this.#socket.end();
    done();
  }

  override _destroy(failure: Error | null, done: (failure?: Error | null) => void): void {
    this.cut();
    const { write } = this.#pending();
    write?.(new Error("the connection is closed"));
    done(failure);
  }

  #pending() {
    const pending = { write: this.#sent, rest: this.#unsent };
    this.#sent = undefined;
    this.#unsent = undefined;
    return pending;
  }

  #send(bytes: Buffer, sent: (failure?: Error) => void): void {
    const count = this.#isClosed ? -1 : this.#socket.write(bytes);
    if (this.#isClosed) sent(new Error("the connection is closed"));
    else if (count === bytes.length) sent();
    else {
      this.#unsent = bytes.subarray(Math.max(count, 0));
      this.#sent = sent;
    }
  }
}
