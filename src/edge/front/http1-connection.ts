/**
 * A client connection over HTTP/1.1: one request after the other, each completed before the next is read. Early bytes
 * are kept, and the client is held back. A connection is closed whenever the end of a request is in doubt.
 */
import type { Socket } from "bun";
import { BadHead } from "../../http1/head-reader.ts";
import { RequestHeadReader } from "../../http1/request-head.ts";
import { type HeldBytes, OWN_HELD_BYTES } from "../flow/held-bytes.ts";
import { Reading } from "../flow/reading.ts";
import { descriptorOf } from "../flow/socket-descriptor.ts";
import { UnsentBytes } from "../flow/unsent-bytes.ts";
import {
  EDGE_CLOSE_MS,
  EDGE_KEEPALIVE_MS,
  EDGE_REQUEST_HEAD_MAX_BYTES,
  EDGE_REQUEST_HEAD_MAX_LINES,
  EDGE_REQUEST_HEAD_MS,
} from "../limits.ts";
import type { ClientRequest, ClientTunnel, ResponseLines } from "./client-request.ts";
import { headText } from "./head-text.ts";
import { Http1Request, type RequestConnection } from "./http1-request.ts";

/** Maximum bytes kept from behind a request in progress; above it, the client is held back. */
export const EDGE_BUFFERED_MAX_BYTES = 64 * 1024;
/** Maximum bytes discarded while a connection ends; above it, bytes stay in the kernel until the client disconnects. */
const EDGE_UNWANTED_BYTES_MAX = 16 * 1024 * 1024;

/** The listener that owns the connection. */
export interface Http1Owner {
  handle(request: ClientRequest): void;
  readonly isSecure: boolean;
  /** Idle timeout between two requests. */
  readonly idleMs: number;
  readonly isStopping: boolean;
}

type Bytes = Buffer<ArrayBuffer>;

const NEVER = Number.POSITIVE_INFINITY;
const HEAD_BOUNDS = {
  maxBytes: EDGE_REQUEST_HEAD_MAX_BYTES,
  maxLines: EDGE_REQUEST_HEAD_MAX_LINES,
  skipsEmptyLines: true,
};

export class Http1Connection implements RequestConnection {
  readonly #unsent = new UnsentBytes();
  readonly #reading = new Reading(this);
  readonly #head = new RequestHeadReader(HEAD_BOUNDS);
  /** Bytes that arrived after the current request. */
  #buffered: Bytes | undefined;
  #request: Http1Request | undefined;
  #tunnel: Tunnel | undefined;
  #deadlineMs: number;
  /** Bytes discarded while the connection ends. */
  #unwantedBytes = 0;
  /**
   * Set when nothing more will be sent: the connection closes once the client has taken the waiting bytes, or on
   * timeout.
   */
  #ending: "end" | "linger" | undefined;
  #closed = false;

  constructor(
    private readonly socket: Socket<unknown>,
    private readonly owner: Http1Owner,
  ) {
    this.#deadlineMs = performance.now() + this.owner.idleMs;
    // Detects a client that vanished during a silent stream; without keepalive its connection would stay forever.
    socket.setKeepAlive(true, EDGE_KEEPALIVE_MS);
  }

  get peer(): string {
    return this.socket.remoteAddress;
  }

  get isSecure(): boolean {
    return this.owner.isSecure;
  }

  get descriptor(): number | undefined {
    return this.#closed || this.isSecure || this.#ending !== undefined ? undefined : descriptorOf(this.socket);
  }

  get hasSentAll(): boolean {
    return this.#unsent.isEmpty;
  }

  /** Whether a request is in progress or the connection is a tunnel. */
  get isBusy(): boolean {
    return this.#request !== undefined || this.#tunnel !== undefined;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Closes the connection if its current step has timed out. */
  checkTimeouts(nowMs: number): void {
    if (nowMs > this.#deadlineMs) this.cut();
  }

  /** Accepts no more requests; a request in progress is finished. */
  finish(): void {
    if (this.#ending !== undefined) this.shortenDeadline();
    else if (!this.isBusy) this.#close("end");
  }

  cut(): void {
    if (!this.#closed) this.socket.terminate();
  }

  data(bytes: Bytes): void {
    this.#reading.data(bytes);
  }

  later(bytes: Bytes): void {
    this.#reading.later(bytes);
  }

  take(bytes: Bytes): void {
    if (this.#tunnel !== undefined) this.#tunnel.onData(bytes);
    else if (this.#ending !== undefined) this.#discard(bytes.length);
    else if (this.#request?.takesBody === true) this.#request.received(bytes);
    else if (this.#request === undefined && !this.#unsent.isFull) this.#readHead(this.#withBuffered(bytes));
    else this.#buffer(this.#withBuffered(bytes));
  }

  #discard(bytes: number): void {
    this.#unwantedBytes += bytes;
    if (this.#unwantedBytes > EDGE_UNWANTED_BYTES_MAX) this.pause();
  }

  drained(): void {
    const hasRoom = this.#unsent.flush(this.socket);
    if (this.#unsent.isEmpty && this.#ending !== undefined) this.#leave();
    else if (hasRoom && this.#tunnel !== undefined) this.#tunnel.onDrained();
    else if (hasRoom && this.#request === undefined && this.#ending === undefined) this.#awaitRequest();
    else if (hasRoom) this.#request?.onDrained?.();
  }

  closed(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#deadlineMs = NEVER;
    this.#reading.drop();
    this.#unsent.drop();
    this.#tunnel?.onClosed();
    this.#tunnel?.over();
    const request = this.#request;
    this.#request = undefined;
    request?.leave();
  }

  chargeTo(held: HeldBytes): void {
    this.#unsent.chargeTo(held);
  }

  send(bytes: Bytes): boolean {
    if (this.#closed || this.#ending !== undefined) return true;
    return this.#unsent.send(this.socket, bytes);
  }

  pause(): void {
    this.#reading.hold();
  }

  resume(): void {
    this.#reading.release();
  }

  pauseReading(): void {
    if (!this.#closed) this.socket.pause();
  }

  resumeReading(): void {
    if (!this.#closed) this.socket.resume();
  }

  takeBuffered(): Bytes | undefined {
    const early = this.#buffered;
    this.#buffered = undefined;
    return early;
  }

  /** Copies the bytes, because the body's piece is owned and freed by its sink. */
  pushBack(bytes: Bytes): void {
    this.#buffer(Buffer.from(bytes));
  }

  shortenDeadline(): void {
    this.#deadlineMs = performance.now() + EDGE_CLOSE_MS;
    this.resume();
  }

  requestOver(isKept: boolean, isRead: boolean): void {
    this.#request = undefined;
    if (this.#closed) return;
    if (!isRead) this.#close("linger");
    else if (!isKept || this.owner.isStopping) this.#close("end");
    else this.#awaitRequest();
  }

  #awaitRequest(): void {
    this.#deadlineMs = performance.now() + this.owner.idleMs;
    this.#reading.beginAnew();
    if (this.#unsent.isEmpty) this.#unsent.chargeTo(OWN_HELD_BYTES);
    // A client that does not read responses gets no further requests served.
    if (this.#unsent.isFull) {
      this.pause();
      return;
    }
    this.resume();
    const early = this.takeBuffered();
    // Deferred, so that many small pipelined requests do not nest on the stack.
    if (early !== undefined) queueMicrotask(() => this.take(early));
  }

  tunnel(head: ResponseLines, closed: () => void): ClientTunnel {
    this.send(Buffer.from(`${headText(head)}\r\n`, "latin1"));
    const tunnel = new Tunnel(this, closed);
    this.#request = undefined;
    this.#tunnel = tunnel;
    const early = this.takeBuffered();
    this.resume();
    if (early !== undefined) queueMicrotask(() => tunnel.onData(early));
    return tunnel;
  }

  endTunnel(): void {
    this.#close("end");
  }

  #withBuffered(bytes: Bytes): Bytes {
    const early = this.takeBuffered();
    return early === undefined ? bytes : Buffer.concat([early, bytes]);
  }

  #buffer(bytes: Bytes): void {
    this.#buffered = bytes;
    if (bytes.length > EDGE_BUFFERED_MAX_BYTES) this.pause();
  }

  #readHead(bytes: Bytes): void {
    try {
      if (this.#head.isEmpty) this.#awaitHead();
      const found = this.#head.take(bytes);
      if (found === undefined) return;
      this.#deadlineMs = NEVER;
      if (found.rest.length > 0) this.#buffer(found.rest);
      const request = new Http1Request(this, found.head);
      this.#request = request;
      this.owner.handle(request);
    } catch (failure) {
      if (!(failure instanceof BadHead)) throw failure;
      this.#refuse(failure);
    }
  }

  /** Starts at the first byte, so that a head sent byte by byte gets no extra time. */
  #awaitHead(): void {
    this.#deadlineMs = performance.now() + EDGE_REQUEST_HEAD_MS;
  }

  #refuse({ status, message }: BadHead): void {
    const lines = ["content-type: text/plain; charset=utf-8", `content-length: ${message.length}`, "connection: close"];
    this.send(Buffer.from(`HTTP/1.1 ${status} Refused\r\n${lines.join("\r\n")}\r\n\r\n${message}`, "latin1"));
    this.#close("linger");
  }

  #close(how: "end" | "linger"): void {
    if (this.#closed || this.#ending !== undefined) return;
    this.#ending = how;
    // A client that sends no further request may still need time to read the last response.
    const mayTakeLong = how === "end" && !this.owner.isStopping;
    this.#deadlineMs = performance.now() + (mayTakeLong ? this.owner.idleMs : EDGE_CLOSE_MS);
    this.resume();
    if (this.#unsent.isEmpty) this.#leave();
  }

  /**
   * Lingers if input is unread: otherwise the kernel would reset the connection and the client would lose its response.
   */
  #leave(): void {
    this.#deadlineMs = performance.now() + EDGE_CLOSE_MS;
    if (this.#ending === "linger") this.socket.shutdown();
    else this.socket.end();
  }
}

class Tunnel implements ClientTunnel {
  onData: (bytes: Bytes) => void = () => undefined;
  onDrained: () => void = () => undefined;
  onClosed: () => void = () => undefined;

  constructor(
    private readonly connection: Http1Connection,
    readonly over: () => void,
  ) {}

  write(bytes: Bytes): boolean {
    return this.connection.send(bytes);
  }

  pause(): void {
    this.connection.pause();
  }

  resume(): void {
    this.connection.resume();
  }

  end(): void {
    this.connection.endTunnel();
  }

  cut(): void {
    this.connection.cut();
  }
}
