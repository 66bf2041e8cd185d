/**
 * A client's connection that speaks HTTP/1.1: one request after the other, each answered before the next is looked at.
 * What comes early is kept, and the client held back. A connection that leaves any doubt about where a request ends is
 * closed.
 */
import type { Socket } from "bun";
import { BadHead } from "../../http1/head-reader.ts";
import { RequestHeadReader } from "../../http1/request-head.ts";
import {
  EDGE_CLOSE_MS,
  EDGE_KEEPALIVE_MS,
  EDGE_REQUEST_HEAD_MAX_BYTES,
  EDGE_REQUEST_HEAD_MAX_LINES,
  EDGE_REQUEST_HEAD_MS,
} from "../limits.ts";
import type { AnswerLines, ClientRequest, ClientTunnel } from "./client-request.ts";
import { headText } from "./head-text.ts";
import { type HeldBytes, OWN_HELD_BYTES } from "./held-bytes.ts";
import { Http1Request, type RequestConnection } from "./http1-request.ts";
import { Reading } from "./reading.ts";
import { descriptorOf } from "./socket-descriptor.ts";
import { UnsentBytes } from "./unsent-bytes.ts";

/** Of what comes behind a request that is still being answered; above it, the client is held back. */
export const EDGE_EARLY_MAX_BYTES = 64 * 1024;
/** The same of a connection that ends: bytes are dropped unread, then left with the kernel until the client leaves. */
const EDGE_UNWANTED_BYTES_MAX = 16 * 1024 * 1024;

/** Whose connection it is. */
export interface Http1Owner {
  handle(request: ClientRequest): void;
  readonly isSecure: boolean;
  /** How long a connection may be silent between two requests. */
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
  readonly #socket: Socket<unknown>;
  readonly #owner: Http1Owner;
  readonly #unsent = new UnsentBytes();
  readonly #reading = new Reading(this);
  readonly #head = new RequestHeadReader(HEAD_BOUNDS);
  /** What came behind the request that is being answered. */
  #early: Bytes | undefined;
  #request: Http1Request | undefined;
  #tunnel: Tunnel | undefined;
  #deadlineMs: number;
  /** Of what comes while it ends. */
  #unwantedBytes = 0;
  /** Nothing more is sent: it closes when the client has what waits, or takes too long for that. */
  #ending: "end" | "linger" | undefined;
  #closed = false;

  constructor(socket: Socket<unknown>, owner: Http1Owner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#deadlineMs = performance.now() + this.#owner.idleMs;
    // One that vanishes within a stream that is silent would be held for ever.
    socket.setKeepAlive(true, EDGE_KEEPALIVE_MS);
  }

  get peer(): string {
    return this.#socket.remoteAddress;
  }

  get isSecure(): boolean {
    return this.#owner.isSecure;
  }

  get descriptor(): number | undefined {
    return this.#closed || this.isSecure || this.#ending !== undefined ? undefined : descriptorOf(this.#socket);
  }

  get hasSentAll(): boolean {
    return this.#unsent.isEmpty;
  }

  /** A request is being answered, or the connection is a tunnel. */
  get isBusy(): boolean {
    return this.#request !== undefined || this.#tunnel !== undefined;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Cuts the connection if it has taken too long for what it is at. */
  look(nowMs: number): void {
    if (nowMs > this.#deadlineMs) this.cut();
  }

  /** No more requests; what is being answered is finished. */
  finish(): void {
    if (this.#ending !== undefined) this.hurry();
    else if (!this.isBusy) this.#close("end");
  }

  cut(): void {
    if (!this.#closed) this.#socket.terminate();
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
    else if (this.#request === undefined && !this.#unsent.isFull) this.#readHead(this.#withEarly(bytes));
    else this.#keepEarly(this.#withEarly(bytes));
  }

  #discard(bytes: number): void {
    this.#unwantedBytes += bytes;
    if (this.#unwantedBytes > EDGE_UNWANTED_BYTES_MAX) this.pause();
  }

  drained(): void {
    const hasRoom = this.#unsent.flush(this.#socket);
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
    return this.#unsent.send(this.#socket, bytes);
  }

  pause(): void {
    this.#reading.hold();
  }

  resume(): void {
    this.#reading.release();
  }

  stopReading(): void {
    if (!this.#closed) this.#socket.pause();
  }

  goOnReading(): void {
    if (!this.#closed) this.#socket.resume();
  }

  takeEarly(): Bytes | undefined {
    const early = this.#early;
    this.#early = undefined;
    return early;
  }

  /** A copy, since the body's piece is somebody else's by then. */
  keepBehind(bytes: Bytes): void {
    this.#keepEarly(Buffer.from(bytes));
  }

  hurry(): void {
    this.#deadlineMs = performance.now() + EDGE_CLOSE_MS;
    this.resume();
  }

  requestOver(isKept: boolean, isRead: boolean): void {
    this.#request = undefined;
    if (this.#closed) return;
    if (!isRead) this.#close("linger");
    else if (!isKept || this.#owner.isStopping) this.#close("end");
    else this.#awaitRequest();
  }

  #awaitRequest(): void {
    this.#deadlineMs = performance.now() + this.#owner.idleMs;
    this.#reading.beginAnew();
    if (this.#unsent.isEmpty) this.#unsent.chargeTo(OWN_HELD_BYTES);
    // Who takes no answers is asked for no more requests.
    if (this.#unsent.isFull) {
      this.pause();
      return;
    }
    this.resume();
    const early = this.takeEarly();
    // Not at once: of many small requests in a row, each would stand on the last.
    if (early !== undefined) queueMicrotask(() => this.take(early));
  }

  tunnel(head: AnswerLines, closed: () => void): ClientTunnel {
    this.send(Buffer.from(`${headText(head)}\r\n`, "latin1"));
    const tunnel = new Tunnel(this, closed);
    this.#request = undefined;
    this.#tunnel = tunnel;
    const early = this.takeEarly();
    this.resume();
    if (early !== undefined) queueMicrotask(() => tunnel.onData(early));
    return tunnel;
  }

  endTunnel(): void {
    this.#close("end");
  }

  #withEarly(bytes: Bytes): Bytes {
    const early = this.takeEarly();
    return early === undefined ? bytes : Buffer.concat([early, bytes]);
  }

  #keepEarly(bytes: Bytes): void {
    this.#early = bytes;
    if (bytes.length > EDGE_EARLY_MAX_BYTES) this.pause();
  }

  #readHead(bytes: Bytes): void {
    try {
      if (this.#head.isEmpty) this.#awaitHead();
      const found = this.#head.take(bytes);
      if (found === undefined) return;
      this.#deadlineMs = NEVER;
      if (found.rest.length > 0) this.#keepEarly(found.rest);
      const request = new Http1Request(this, found.head);
      this.#request = request;
      this.#owner.handle(request);
    } catch (failure) {
      if (!(failure instanceof BadHead)) throw failure;
      this.#refuse(failure);
    }
  }

  /** From its first byte on: one that comes byte by byte has no more time than any other. */
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
    // Who wants no further request takes the answer to the last one no faster than others do.
    const mayTakeLong = how === "end" && !this.#owner.isStopping;
    this.#deadlineMs = performance.now() + (mayTakeLong ? this.#owner.idleMs : EDGE_CLOSE_MS);
    this.resume();
    if (this.#unsent.isEmpty) this.#leave();
  }

  /** One whose bytes have not all been read would be reset by the kernel, and the client lose what it was answered. */
  #leave(): void {
    this.#deadlineMs = performance.now() + EDGE_CLOSE_MS;
    if (this.#ending === "linger") this.#socket.shutdown();
    else this.#socket.end();
  }
}

class Tunnel implements ClientTunnel {
  onData: (bytes: Bytes) => void = () => undefined;
  onDrained: () => void = () => undefined;
  onClosed: () => void = () => undefined;
  readonly #connection: Http1Connection;

  constructor(
    connection: Http1Connection,
    readonly over: () => void,
  ) {
    this.#connection = connection;
  }

  write(bytes: Bytes): boolean {
    return this.#connection.send(bytes);
  }

  pause(): void {
    this.#connection.pause();
  }

  resume(): void {
    this.#connection.resume();
  }

  end(): void {
    this.#connection.endTunnel();
  }

  cut(): void {
    this.#connection.cut();
  }
}
