/** One HTTP/1.1 request and its response. */
import { type Body, ChunkedBody, CountedBody } from "../../http1/body.ts";
import type { RequestHead } from "../../http1/request-head.ts";
import type { HeldBytes } from "../flow/held-bytes.ts";
import { EDGE_CHUNKS_AT_ONCE_MAX, EDGE_JOINED_PIECE_MAX_BYTES, EDGE_SPLICED_MIN_BYTES } from "../limits.ts";
import type { RequestTrace } from "../request-trace.ts";
import type { BodySink, ClientRequest, ClientTunnel, ResponseBody, ResponseLines } from "./client-request.ts";
import { headText, joined } from "./head-text.ts";
import { requestIdOf } from "./request-id.ts";

/** How much of an unwanted body is read so that the client sees the response; a longer body ends the connection. */
export const EDGE_UNWANTED_BODY_MAX_BYTES = 1024 * 1024;

type Bytes = Buffer<ArrayBuffer>;

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const LAST_CHUNK = "0\r\n\r\n";
const NOTHING: Bytes = Buffer.alloc(0);
const REFUSED_STATUS_MIN = 400;

/** The part of a connection that a request uses. */
export interface RequestConnection {
  readonly peer: string;
  readonly isSecure: boolean;
  /** Undefined if bytes must not be written to the connection directly. */
  readonly descriptor: number | undefined;
  /** Whether everything written so far was sent. */
  readonly hasSentAll: boolean;
  /** Returns false if the client does not keep up. */
  send(bytes: Bytes): boolean;
  pause(): void;
  resume(): void;
  cut(): void;
  chargeTo(held: HeldBytes): void;
  /** Gives back received bytes that are too much for one turn; they arrive again in another. */
  later(bytes: Bytes): void;
  /** Takes the part of the body that has already arrived. */
  takeBuffered(): Bytes | undefined;
  /** Keeps bytes that arrived after the body. */
  pushBack(bytes: Bytes): void;
  /** Shortens the deadline: the rest of the body is unwanted. */
  shortenDeadline(): void;
  /** The request is over. The connection ends too, unless it is kept and the body was read to its end. */
  requestOver(isKept: boolean, isRead: boolean): void;
  /** `closed` is called when the tunnel closes. */
  tunnel(head: ResponseLines, closed: () => void): ClientTunnel;
}

export class Http1Request implements ClientRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: RequestHead["headers"];
  readonly bodyBytes: number | undefined;
  /** Undefined if there is no body or it has been read to its end. */
  #framing: Body | undefined;
  #sink: BodySink | undefined;
  /** State of the response. */
  #state: "awaited" | "begun" | "over" = "awaited";
  /** Whether written pieces become chunks here. */
  #inChunks = false;
  #chunksBegun = false;
  /** Whether the end of the connection ends the response. */
  #untilClose = false;
  #isDiverted = false;
  /** The response says that the connection closes after it. */
  #isLast = false;
  /** Bytes of the body read since the response was completed. */
  #unwantedBytes = 0;
  #abort: AbortController | undefined;
  #requestId: string | undefined;
  onDisconnect: (() => void) | undefined;
  onDrained: (() => void) | undefined;
  onOver: (() => void) | undefined;
  trace: RequestTrace | undefined;
  isDisconnected = false;

  constructor(
    private readonly connection: RequestConnection,
    private readonly head: RequestHead,
  ) {
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.bodyBytes = head.bodyBytes;
    if (head.bodyBytes === undefined) this.#framing = new ChunkedBody({ chunksAtOnce: EDGE_CHUNKS_AT_ONCE_MAX });
    else if (head.bodyBytes > 0) this.#framing = new CountedBody(head.bodyBytes);
  }

  get peer(): string {
    return this.connection.peer;
  }

  get isSecure(): boolean {
    return this.connection.isSecure;
  }

  get requestId(): string {
    this.#requestId ??= requestIdOf(this.headers);
    return this.#requestId;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isDisconnected) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Whether arriving bytes go to `received`. */
  get takesBody(): boolean {
    return this.#sink !== undefined && this.#framing !== undefined;
  }

  chargeTo(held: HeldBytes): void {
    this.connection.chargeTo(held);
  }

  sendBodyTo(sink: BodySink): void {
    if (this.#framing === undefined) return;
    if (this.#sink === undefined && this.head.awaitsContinue) this.connection.send(Buffer.from(CONTINUE));
    this.#sink = sink;
    const early = this.connection.takeBuffered();
    this.connection.resume();
    if (early !== undefined) this.received(early);
  }

  get responseDescriptor(): number | undefined {
    const isBare = this.#state === "begun" && !this.#inChunks && this.connection.hasSentAll;
    return isBare ? this.connection.descriptor : undefined;
  }

  spliceBody(take: (descriptor: number, bytes: number) => boolean): boolean {
    const left = this.#framing?.left ?? 0;
    const { descriptor } = this.connection;
    // Only bodies too long to be discarded: a discarded body must be counted to its end.
    const isLong = left >= EDGE_SPLICED_MIN_BYTES && (this.bodyBytes ?? 0) > EDGE_UNWANTED_BODY_MAX_BYTES;
    if (!isLong || descriptor === undefined || this.#isDiverted || !take(descriptor, left)) return false;
    this.#isDiverted = true;
    this.connection.pause();
    return true;
  }

  bodySpliced(bytes: number): void {
    this.#isDiverted = false;
    const framing = this.#framing;
    if (framing === undefined || this.isDisconnected) return;
    framing.skip?.(bytes);
    if (framing.ended) this.#framing = undefined;
    if (this.#state === "over") this.#leaveConnection();
    else {
      this.connection.resume();
      if (framing.ended) this.#sink?.ended();
    }
  }

  holdBody(): void {
    if (this.#framing !== undefined) this.connection.pause();
  }

  releaseBody(): void {
    this.connection.resume();
  }

  received(bytes: Bytes): void {
    const framing = this.#framing;
    if (framing === undefined) return;
    if (this.#isDiverted) {
      // Two readers on one connection: the order of the bytes is unknown.
      this.connection.cut();
      return;
    }
    let content: Bytes;
    try {
      content = framing.take(bytes);
    } catch {
      // The start of the next request is unknown.
      this.connection.cut();
      return;
    }
    const { surplus, untaken = 0 } = framing;
    if (surplus > 0) this.connection.pushBack(bytes.subarray(bytes.length - surplus));
    if (framing.ended) this.#framing = undefined;
    if (this.#state === "over" && !framing.ended) {
      this.#unwantedBytes += bytes.length - untaken;
      if (this.#unwantedBytes > EDGE_UNWANTED_BODY_MAX_BYTES) {
        this.connection.requestOver(false, false);
        return;
      }
    }
    if (untaken > 0) {
      // Copied, because the sink frees its buffer, which also holds the rest.
      content = Buffer.from(content);
      this.connection.later(bytes.subarray(bytes.length - untaken));
    }
    const sink = this.#sink;
    if (content.length > 0) sink?.piece(content);
    if (framing.ended) sink?.ended();
  }

  get readsChunks(): boolean {
    return this.head.minorVersion > 0;
  }

  respond(head: ResponseLines, body: ResponseBody, given?: Bytes): void {
    if (this.#state !== "awaited" || this.isDisconnected) return;
    this.#state = "begun";
    this.trace?.setStatus(head.status);
    const first = body === "none" || given === undefined ? NOTHING : given;
    let text = headText(head);
    const isCounted = head.headers.has("content-length");
    if (body === "whole" && !isCounted) text += `content-length: ${first.length}\r\n`;
    if (body === "follows" && !isCounted) {
      this.#inChunks = this.readsChunks;
      this.#untilClose = !this.readsChunks;
    }
    if (this.#inChunks || body === "chunks") text += "transfer-encoding: chunked\r\n";
    this.#isLast = !this.#mayKeep() || ((body === "none" || body === "whole") && this.#isLongUnread(head.status));
    if (this.#isLast) text += "connection: close\r\n";
    text += "\r\n";
    if (this.#inChunks && first.length > 0) text += this.#chunkStart(first.length);
    this.#sendBoth(text, first);
    if (body === "none" || body === "whole") this.end();
  }

  write(bytes: Bytes): boolean {
    if (this.#state !== "begun" || bytes.length === 0) return true;
    if (!this.#inChunks) return this.connection.send(bytes);
    return this.#sendBoth(this.#chunkStart(bytes.length), bytes);
  }

  end(): void {
    if (this.#state !== "begun") return;
    this.#state = "over";
    this.#over();
    if (this.#inChunks) this.connection.send(Buffer.from(`${this.#chunksBegun ? "\r\n" : ""}${LAST_CHUNK}`));
    // A service may respond before the edge learns that the service received the whole body.
    if (!this.#isDiverted) this.#leaveConnection();
  }

  #leaveConnection(): void {
    if (this.#framing === undefined || !this.#mayDiscard()) {
      this.connection.requestOver(this.#mayKeep(), this.#framing === undefined);
      return;
    }
    this.connection.shortenDeadline();
    this.sendBodyTo({
      piece: () => undefined,
      ended: () => this.connection.requestOver(this.#mayKeep(), true),
    });
  }

  cut(): void {
    this.connection.cut();
  }

  tunnel(head: ResponseLines): ClientTunnel {
    this.#state = "over";
    this.trace?.setStatus(head.status);
    return this.connection.tunnel(head, () => this.#over());
  }

  /** Called when the connection has ended. */
  leave(): void {
    if (this.#state === "over") return;
    this.isDisconnected = true;
    this.#over();
    this.onDisconnect?.();
    this.#abort?.abort();
  }

  #over(): void {
    this.onOver?.();
    this.trace?.end();
  }

  /**
   * A client that awaits 100 Continue may or may not send the body, so the meaning of the next bytes would be a guess.
   */
  #mayKeep(): boolean {
    const isUnasked = this.head.awaitsContinue && this.#sink === undefined;
    return this.head.isKept && !this.#untilClose && !isUnasked && !this.#isLast;
  }

  /**
   * The rest of such a body is not read: the connection closes after the response. How much of a diverted body the
   * service has read is not known yet: a service that rejects the request has probably left some.
   */
  #isLongUnread(status: number): boolean {
    if (this.#framing === undefined || (this.bodyBytes ?? 0) <= EDGE_UNWANTED_BODY_MAX_BYTES) return false;
    return !this.#isDiverted || status >= REFUSED_STATUS_MIN;
  }

  /** The rest of an unwanted body is read if it is short; a chunked one until it exceeds the limit. */
  #mayDiscard(): boolean {
    return this.#mayKeep() && (this.bodyBytes ?? 0) <= EDGE_UNWANTED_BODY_MAX_BYTES;
  }

  /** Sends small pieces in one buffer with the text before them. */
  #sendBoth(before: string, bytes: Bytes): boolean {
    if (bytes.length <= EDGE_JOINED_PIECE_MAX_BYTES) return this.connection.send(joined(before, bytes));
    this.connection.send(Buffer.from(before, "latin1"));
    return this.connection.send(bytes);
  }

  /** Joins the end of a chunk with the start of the next, because every send is a system call. */
  #chunkStart(bytes: number): string {
    const end = this.#chunksBegun ? "\r\n" : "";
    this.#chunksBegun = true;
    return `${end}${bytes.toString(16)}\r\n`;
  }
}
