/** One request over HTTP/1.1 and its answer. */
import { type Body, ChunkedBody, CountedBody } from "../../http1/body.ts";
import type { RequestHead } from "../../http1/request-head.ts";
import { EDGE_CHUNKS_AT_ONCE_MAX, EDGE_JOINED_PIECE_MAX_BYTES, EDGE_SPLICED_MIN_BYTES } from "../limits.ts";
import type { AnswerBody, AnswerLines, BodySink, ClientRequest, ClientTunnel } from "./client-request.ts";
import { headText, joined } from "./head-text.ts";
import type { HeldBytes } from "./held-bytes.ts";

/** Of a body that nobody wants, read on so that its client sees the answer; one that is longer ends its connection. */
export const EDGE_UNWANTED_BODY_MAX_BYTES = 1024 * 1024;

type Bytes = Buffer<ArrayBuffer>;

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const LAST_CHUNK = "0\r\n\r\n";

/** What a request needs of its connection. */
export interface RequestConnection {
  readonly peer: string;
  readonly isSecure: boolean;
  /** Undefined: bytes may not go there past this. */
  readonly descriptor: number | undefined;
  /** All that was sent is on its way. */
  readonly hasSentAll: boolean;
  /** False: the client does not keep up. */
  send(bytes: Bytes): boolean;
  pause(): void;
  resume(): void;
  cut(): void;
  chargeTo(held: HeldBytes): void;
  /** What was received and is too much for one turn: it is received again in another. */
  later(bytes: Bytes): void;
  /** What has come of the body already. */
  takeEarly(): Bytes | undefined;
  /** What came behind the body. */
  keepBehind(bytes: Bytes): void;
  /** Nobody wants the rest of the body, which has little time to come. */
  hurry(): void;
  /** It is over, answered and read to its end, or else the connection is. */
  requestOver(isKept: boolean, isRead: boolean): void;
  /** `closed` is called when it is. */
  tunnel(head: AnswerLines, closed: () => void): ClientTunnel;
}

export class Http1Request implements ClientRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: RequestHead["headers"];
  readonly bodyBytes: number | undefined;
  readonly #connection: RequestConnection;
  readonly #head: RequestHead;
  /** Undefined: there is no body, or it has been read to its end. */
  #framing: Body | undefined;
  #sink: BodySink | undefined;
  /** Of the answer. */
  #state: "awaited" | "begun" | "over" = "awaited";
  #inChunks = false;
  #chunksBegun = false;
  /** Of a chunk that was begun, if it is not sent past this. */
  #chunkLeft = 0;
  /** The end of the connection is the end of the answer. */
  #untilClose = false;
  #isDiverted = false;
  /** Of the body, since the answer is over. */
  #unwantedBytes = 0;
  #abort: AbortController | undefined;
  onGone: (() => void) | undefined;
  onDrained: (() => void) | undefined;
  onOver: (() => void) | undefined;
  isGone = false;

  constructor(connection: RequestConnection, head: RequestHead) {
    this.#connection = connection;
    this.#head = head;
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.bodyBytes = head.bodyBytes;
    if (head.bodyBytes === undefined) this.#framing = new ChunkedBody({ chunksAtOnce: EDGE_CHUNKS_AT_ONCE_MAX });
    else if (head.bodyBytes > 0) this.#framing = new CountedBody(head.bodyBytes);
  }

  get peer(): string {
    return this.#connection.peer;
  }

  get isSecure(): boolean {
    return this.#connection.isSecure;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isGone) this.#abort.abort();
    return this.#abort.signal;
  }

  /** What arrives is for `received`. */
  get takesBody(): boolean {
    return this.#sink !== undefined && this.#framing !== undefined;
  }

  chargeTo(held: HeldBytes): void {
    this.#connection.chargeTo(held);
  }

  sendBodyTo(sink: BodySink): void {
    if (this.#framing === undefined) return;
    if (this.#sink === undefined && this.#head.awaitsContinue) this.#connection.send(Buffer.from(CONTINUE));
    this.#sink = sink;
    const early = this.#connection.takeEarly();
    this.#connection.resume();
    if (early !== undefined) this.received(early);
  }

  get answerDescriptor(): number | undefined {
    const isBare = this.#state === "begun" && !this.#inChunks && this.#connection.hasSentAll;
    return isBare ? this.#connection.descriptor : undefined;
  }

  divertChunk(bytes: number): number | undefined {
    const connection = this.#connection;
    const isOpen = this.#state === "begun" && this.#inChunks && this.#chunkLeft === 0;
    if (!isOpen || !connection.hasSentAll || connection.descriptor === undefined) return undefined;
    connection.send(Buffer.from(this.#chunkStart(bytes), "latin1"));
    this.#chunkLeft = bytes;
    return connection.hasSentAll ? connection.descriptor : undefined;
  }

  chunksDiverted(): void {
    this.#chunkLeft = 0;
  }

  divertBody(take: (descriptor: number, bytes: number) => boolean): boolean {
    const left = this.#framing?.left ?? 0;
    const { descriptor } = this.#connection;
    // One of which the rest would be read on when nobody wants it must be counted to its end.
    const isLong = left >= EDGE_SPLICED_MIN_BYTES && (this.bodyBytes ?? 0) > EDGE_UNWANTED_BODY_MAX_BYTES;
    if (!isLong || descriptor === undefined || this.#isDiverted || !take(descriptor, left)) return false;
    this.#isDiverted = true;
    this.#connection.pause();
    return true;
  }

  bodyDiverted(bytes: number): void {
    this.#isDiverted = false;
    const framing = this.#framing;
    if (framing === undefined || this.isGone) return;
    framing.skip?.(bytes);
    if (framing.ended) this.#framing = undefined;
    if (this.#state === "over") this.#leaveConnection();
    else {
      this.#connection.resume();
      if (framing.ended) this.#sink?.ended();
    }
  }

  holdBody(): void {
    if (this.#framing !== undefined) this.#connection.pause();
  }

  releaseBody(): void {
    this.#connection.resume();
  }

  received(bytes: Bytes): void {
    const framing = this.#framing;
    if (framing === undefined) return;
    if (this.#isDiverted) {
      // Two that read from one connection: nobody knows in which order.
      this.#connection.cut();
      return;
    }
    let content: Bytes;
    try {
      content = framing.take(bytes);
    } catch {
      // Nobody knows where the next request would begin.
      this.#connection.cut();
      return;
    }
    const { surplus, untaken = 0 } = framing;
    if (surplus > 0) this.#connection.keepBehind(bytes.subarray(bytes.length - surplus));
    if (framing.ended) this.#framing = undefined;
    if (this.#state === "over" && !framing.ended) {
      this.#unwantedBytes += bytes.length - untaken;
      if (this.#unwantedBytes > EDGE_UNWANTED_BODY_MAX_BYTES) {
        this.#connection.requestOver(false, false);
        return;
      }
    }
    if (untaken > 0) {
      // A copy, since the sink frees what it gets, and the rest is in the same buffer.
      content = Buffer.from(content);
      this.#connection.later(bytes.subarray(bytes.length - untaken));
    }
    const sink = this.#sink;
    if (content.length > 0) sink?.piece(content);
    if (framing.ended) sink?.ended();
  }

  answer(head: AnswerLines, body: AnswerBody, first?: Bytes): void {
    if (this.#state !== "awaited" || this.isGone) return;
    this.#state = "begun";
    let text = headText(head);
    const isCounted = head.headers.has("content-length");
    if (body === "whole" && !isCounted) text += `content-length: ${first?.length ?? 0}\r\n`;
    if (body === "follows" && !isCounted) {
      if (this.#head.minorVersion === 0) this.#untilClose = true;
      else {
        this.#inChunks = true;
        text += "transfer-encoding: chunked\r\n";
      }
    }
    if (!this.#mayKeep()) text += "connection: close\r\n";
    text += "\r\n";
    if (body === "follows") this.#sendHead(text, first);
    else {
      this.#sendWhole(text, first);
      this.end();
    }
  }

  write(bytes: Bytes): boolean {
    if (this.#state !== "begun" || bytes.length === 0) return true;
    if (!this.#inChunks) return this.#connection.send(bytes);
    if (this.#chunkLeft > 0) return this.#continueChunk(bytes);
    return this.#sendBoth(this.#chunkStart(bytes.length), bytes);
  }

  /** Of a chunk that was begun before its bytes were there. Copied, since what is sent is the connection's. */
  #continueChunk(bytes: Bytes): boolean {
    const left = this.#chunkLeft;
    this.#chunkLeft = Math.max(left - bytes.length, 0);
    if (bytes.length <= left) return this.#connection.send(bytes);
    const behind = Buffer.from(bytes.subarray(left));
    this.#connection.send(Buffer.from(bytes.subarray(0, left)));
    return this.write(behind);
  }

  end(): void {
    if (this.#state !== "begun") return;
    this.#state = "over";
    this.onOver?.();
    if (this.#inChunks) this.#connection.send(Buffer.from(`${this.#chunksBegun ? "\r\n" : ""}${LAST_CHUNK}`));
    // A service may answer before we have heard that it got the last of the body.
    if (!this.#isDiverted) this.#leaveConnection();
  }

  #leaveConnection(): void {
    if (this.#framing === undefined || !this.#mayDiscard()) {
      this.#connection.requestOver(this.#mayKeep(), this.#framing === undefined);
      return;
    }
    this.#connection.hurry();
    this.sendBodyTo({
      piece: () => undefined,
      ended: () => this.#connection.requestOver(this.#mayKeep(), true),
    });
  }

  cut(): void {
    this.#connection.cut();
  }

  tunnel(head: AnswerLines): ClientTunnel {
    this.#state = "over";
    return this.#connection.tunnel(head, () => this.onOver?.());
  }

  /** The connection has ended. */
  leave(): void {
    if (this.#state === "over") return;
    this.isGone = true;
    this.onOver?.();
    this.onGone?.();
    this.#abort?.abort();
  }

  /** Who waits to be told to continue may send the body or not: what comes next would be a guess. */
  #mayKeep(): boolean {
    const isUnasked = this.#head.awaitsContinue && this.#sink === undefined;
    return this.#head.isKept && !this.#untilClose && !isUnasked;
  }

  /** The rest of a body that nobody wants is read if it is short; one in chunks until it turns out not to be. */
  #mayDiscard(): boolean {
    return this.#mayKeep() && (this.bodyBytes ?? 0) <= EDGE_UNWANTED_BODY_MAX_BYTES;
  }

  #sendHead(text: string, first: Bytes | undefined): void {
    if (first === undefined || first.length === 0) {
      this.#connection.send(Buffer.from(text, "latin1"));
      return;
    }
    const start = this.#inChunks ? text + this.#chunkStart(first.length) : text;
    this.#sendBoth(start, first);
  }

  #sendWhole(text: string, body: Bytes | undefined): void {
    const length = body?.length ?? 0;
    if (body === undefined || length === 0) this.#connection.send(Buffer.from(text, "latin1"));
    else if (length <= EDGE_JOINED_PIECE_MAX_BYTES) this.#connection.send(joined(text, body));
    else this.#sendHead(text, body);
  }

  /** Small pieces go with what stands before them. */
  #sendBoth(before: string, bytes: Bytes): boolean {
    if (bytes.length <= EDGE_JOINED_PIECE_MAX_BYTES) return this.#connection.send(joined(before, bytes));
    this.#connection.send(Buffer.from(before, "latin1"));
    return this.#connection.send(bytes);
  }

  /** The end of a chunk goes with the start of the next, for a piece sent is a call of the kernel. */
  #chunkStart(bytes: number): string {
    const end = this.#chunksBegun ? "\r\n" : "";
    this.#chunksBegun = true;
    return `${end}${bytes.toString(16)}\r\n`;
  }
}
