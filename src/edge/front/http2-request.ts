/** One HTTP/2 request (a stream) and its response. Bodies bypass the library that owns the stream. */
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { type HeldBytes, OWN_HELD_BYTES } from "../flow/held-bytes.ts";
import { UnsentBytes } from "../flow/unsent-bytes.ts";
import {
  EDGE_HTTP2_WINDOW_BYTES,
  EDGE_REQUEST_WAITING_MAX_BYTES,
  EDGE_RESPONSE_PIECE_OVERHEAD_BYTES,
} from "../limits.ts";
import type { RequestTrace } from "../request-trace.ts";
import type { BodySink, ClientRequest, ResponseBody, ResponseLines } from "./client-request.ts";
import type { Http2Carried, Http2Connection } from "./http2-connection.ts";
import type { Http2Head } from "./http2-head.ts";
import { requestIdOf } from "./request-id.ts";

type Bytes = Buffer<ArrayBuffer>;

/** The stream's window is reopened after this many bytes of the body were taken. */
const WINDOW_STEP_BYTES = EDGE_HTTP2_WINDOW_BYTES / 2;

export class Http2Request implements ClientRequest, Http2Carried {
  readonly method: string;
  readonly target: string;
  readonly headers: Http2Head["headers"];
  readonly bodyBytes: number | undefined;
  readonly isSecure = true;
  readonly id: number;
  window = 0;
  /** Pieces of the body that have arrived and were not taken. */
  #unread: Bytes[] = [];
  #unreadBytes = 0;
  /** The budget that waiting bytes of both bodies are charged to. */
  #held: HeldBytes = OWN_HELD_BYTES;
  #left: number | undefined;
  /** Bytes received since the last window update. */
  #takenBytes = 0;
  #sink: BodySink | undefined;
  #isHeld = false;
  /** #hasAll: no more DATA comes. #isWhole: everything before that was seen. */
  #hasAll: boolean;
  #isWhole = false;
  readonly #unsent = new UnsentBytes();
  readonly #writer = { write: (bytes: Bytes) => this.connection.send(this, bytes) };
  #isEnding = false;
  #state: "awaited" | "begun" | "over" = "awaited";
  #abort: AbortController | undefined;
  #requestId: string | undefined;
  onDisconnect: (() => void) | undefined;
  onDrained: (() => void) | undefined;
  onOver: (() => void) | undefined;
  trace: RequestTrace | undefined;
  isDisconnected = false;

  constructor(
    private readonly stream: ServerHttp2Stream,
    head: Http2Head,
    private readonly connection: Http2Connection,
    hasEnded: boolean,
  ) {
    this.id = stream.id ?? 0;
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.bodyBytes = head.bodyBytes;
    this.#left = head.bodyBytes;
    this.#hasAll = hasEnded;
    stream.on("end", () => {
      // A stream that was reset, or whose connection broke, also emits "end". Its close event follows.
      if (!this.#isBroken) this.#bodyComplete();
    });
    stream.resume();
  }

  get peer(): string {
    return this.connection.remoteAddress;
  }

  /** Bytes held here, plus those that wait for a service that does not keep up. */
  get unreadBytes(): number {
    return this.#unreadBytes + (this.#isHeld ? EDGE_REQUEST_WAITING_MAX_BYTES : 0);
  }

  get isSpent(): boolean {
    return this.#held.isSpent;
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

  sendBodyTo(sink: BodySink): void {
    if (this.bodyBytes === 0) return;
    this.#sink = sink;
    if (this.#awaitsContinue) this.stream.additionalHeaders({ ":status": constants.HTTP_STATUS_CONTINUE });
    this.#handOn();
  }

  /** The client waits for 100 Continue before it sends its body (RFC 9110, 10.1.1). */
  get #awaitsContinue(): boolean {
    if (this.#hasAll || this.#unreadBytes > 0 || this.#state !== "awaited" || this.stream.closed) return false;
    return this.headers.get("expect")?.toLowerCase() === "100-continue";
  }

  acceptData(bytes: number): boolean {
    if (this.#hasAll || this.stream.closed) return false;
    this.#takenBytes += bytes;
    // The client exceeded its window.
    if (this.#takenBytes > EDGE_HTTP2_WINDOW_BYTES) this.#reset(constants.NGHTTP2_FLOW_CONTROL_ERROR);
    return true;
  }

  /** A body of another length than announced ends the stream: the service would see it end at another place. */
  receiveData(content: Bytes): void {
    if (this.#isBroken || this.stream.closed) return;
    if (this.#left !== undefined) this.#left -= content.length;
    if (this.#left !== undefined && this.#left < 0) {
      this.#reset(constants.NGHTTP2_PROTOCOL_ERROR);
      return;
    }
    this.#unread.push(content);
    this.#hold(content.length + EDGE_RESPONSE_PIECE_OVERHEAD_BYTES);
    this.#handOn();
  }

  /** If the length was announced, the library must not see the end: it would miss the bytes that bypassed it. */
  bodyEnded(): boolean {
    this.#hasAll = true;
    if (this.bodyBytes === undefined || this.bodyBytes === 0) return true;
    this.#bodyComplete();
    return false;
  }

  #bodyComplete(): void {
    this.#hasAll = true;
    this.#isWhole = true;
    if (this.#left === undefined || this.#left === 0) this.#handOn();
    else this.#reset(constants.NGHTTP2_PROTOCOL_ERROR);
  }

  /** Passes pieces to the service as long as it takes them. */
  #handOn(): void {
    const sink = this.#sink;
    if (sink === undefined || this.#isBroken) return;
    let isTaken = false;
    while (!this.#isHeld) {
      const piece = this.#unread.shift();
      if (piece === undefined) break;
      this.#hold(-piece.length - EDGE_RESPONSE_PIECE_OVERHEAD_BYTES);
      sink.piece(piece);
      isTaken = true;
    }
    if (isTaken) this.connection.bodyTaken();
    if (this.#unread.length > 0 || this.#isHeld) return;
    if (this.#isWhole) {
      this.#sink = undefined;
      sink.ended();
    } else if (this.#takenBytes >= WINDOW_STEP_BYTES && !this.#hasAll) {
      this.connection.open(this.id, this.#takenBytes);
      this.#takenBytes = 0;
    }
  }

  holdBody(): void {
    this.#isHeld = true;
  }

  releaseBody(): void {
    this.#isHeld = false;
    this.#handOn();
    this.connection.bodyTaken();
  }

  refuseBody(): void {
    this.#reset(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  chargeTo(held: HeldBytes): void {
    this.#unsent.chargeTo(held);
    this.#held.add(-this.#unreadBytes);
    this.#held = held;
    held.add(this.#unreadBytes);
  }

  #hold(bytes: number): void {
    this.#unreadBytes += bytes;
    this.#held.add(bytes);
  }

  respond({ status, headers }: ResponseLines, body: ResponseBody, first?: Bytes): void {
    if (this.#state !== "awaited" || this.isDisconnected) return;
    this.#state = "begun";
    this.trace?.setStatus(status);
    const lines: OutgoingHttpHeaders = { ":status": status };
    headers.forEach((value, name) => {
      const before = lines[name];
      if (before === undefined) lines[name] = value;
      else lines[name] = Array.isArray(before) ? [...before, value] : [String(before), value];
    });
    const hasNone = body === "none" || (body === "whole" && (first?.length ?? 0) === 0);
    // Corked, so that a short response is sent in one write.
    this.connection.cork();
    try {
      this.stream.respond(lines, { endStream: hasNone });
      // Makes the library send the head now, before the body.
      this.connection.emit("drain");
      if (hasNone) this.#over();
      else if (first !== undefined && first.length > 0) this.write(first);
      if (body === "whole") this.end();
    } catch {
      // HTTP/1.1 allows characters in headers that HTTP/2 does not.
      this.cut();
    } finally {
      this.connection.uncork();
    }
    if (!this.#unsent.isEmpty) this.flush();
  }

  write(bytes: Bytes): boolean {
    if (this.#state !== "begun" || this.isDisconnected) return true;
    return this.#unsent.send(this.#writer, bytes);
  }

  flush(): void {
    const hasRoom = this.#unsent.flush(this.#writer);
    if (this.#isEnding && this.#unsent.isEmpty) this.stream.end();
    else if (hasRoom) this.onDrained?.();
  }

  end(): void {
    if (this.#state !== "begun") return;
    this.#over();
    this.#isEnding = true;
    if (!this.isDisconnected && this.#unsent.isEmpty) this.stream.end();
  }

  cut(): void {
    this.#reset(constants.NGHTTP2_INTERNAL_ERROR);
  }

  /** Called when the stream is closed. */
  leave(): void {
    this.#unsent.drop();
    this.#unread = [];
    this.#hold(-this.#unreadBytes);
    if (this.#state === "over" || this.isDisconnected) return;
    this.isDisconnected = true;
    this.onOver?.();
    this.trace?.end();
    this.onDisconnect?.();
    this.#abort?.abort();
  }

  /** A client that has its response need not send the rest of its body (RFC 9113, 8.1). */
  #over(): void {
    this.#state = "over";
    this.onOver?.();
    this.trace?.end();
    if (this.bodyBytes === 0 || this.stream.readableEnded) return;
    this.stream.once("finish", () => this.#reset(constants.NGHTTP2_NO_ERROR));
  }

  get #isBroken(): boolean {
    const { destroyed, aborted, rstCode } = this.stream;
    return destroyed || aborted || (rstCode ?? constants.NGHTTP2_NO_ERROR) !== constants.NGHTTP2_NO_ERROR;
  }

  /**
   * Bun's `close` ends the stream before it resets it, so the client would take a partial response for complete.
   * Replacing `end` prevents that.
   */
  #reset(code: number): void {
    const stream = this.stream;
    if (stream.closed) return;
    this.#unsent.drop();
    if (!stream.writableEnded) stream.end = () => stream;
    stream.close(code);
  }
}
