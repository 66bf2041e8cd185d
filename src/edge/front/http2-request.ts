/** One request over HTTP/2, a stream of its own, and its answer. */
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { EDGE_REQUEST_WAITING_MAX_BYTES } from "../limits.ts";
import type { AnswerBody, AnswerLines, BodySink, ClientRequest } from "./client-request.ts";
import type { Http2Head } from "./http2-head.ts";
import { releaseBufferOf } from "./release-piece.ts";
import type { SocketDuplex, UntakenBody } from "./socket-duplex.ts";

type Bytes = Buffer<ArrayBuffer>;

export class Http2Request implements ClientRequest, UntakenBody {
  readonly method: string;
  readonly target: string;
  readonly headers: Http2Head["headers"];
  readonly bodyBytes: number | undefined;
  readonly isSecure = true;
  readonly #stream: ServerHttp2Stream;
  readonly #connection: SocketDuplex | undefined;
  #isHeld = false;
  #state: "awaited" | "begun" | "over" = "awaited";
  #abort: AbortController | undefined;
  onGone: (() => void) | undefined;
  onDrained: (() => void) | undefined;
  onOver: (() => void) | undefined;
  isGone = false;

  constructor(
    stream: ServerHttp2Stream,
    { method, target, headers, bodyBytes }: Http2Head,
    connection: SocketDuplex | undefined,
  ) {
    this.#stream = stream;
    this.#connection = connection;
    this.method = method;
    this.target = target;
    this.headers = headers;
    this.bodyBytes = bodyBytes;
    stream.on("drain", () => this.onDrained?.());
  }

  get peer(): string {
    return this.#connection?.remoteAddress ?? "";
  }

  /** What is here of its body, and what waits for the service if that does not keep up. */
  get untakenBytes(): number {
    return this.#stream.readableLength + (this.#isHeld ? EDGE_REQUEST_WAITING_MAX_BYTES : 0);
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isGone) this.#abort.abort();
    return this.#abort.signal;
  }

  /** A body that is not as long as announced ends the stream: behind us it would end in another place. */
  sendBodyTo(sink: BodySink): void {
    if (this.bodyBytes === 0) return;
    let left = this.bodyBytes;
    const frames = new GatheredFrames((bytes) => {
      sink.piece(bytes);
      this.#connection?.bodyTaken();
    });
    this.#stream.on("data", (bytes: Bytes) => {
      if (left !== undefined) {
        left -= bytes.length;
        if (left < 0) this.#reset(constants.NGHTTP2_PROTOCOL_ERROR);
        if (left < 0) return;
      }
      frames.add(bytes);
    });
    this.#stream.on("end", () => {
      // A stream that the client reset, or whose connection broke, "ends", too. Its close follows.
      if (this.#isBroken) return;
      frames.flush();
      if (left === undefined || left === 0) sink.ended();
      else this.#reset(constants.NGHTTP2_PROTOCOL_ERROR);
    });
  }

  holdBody(): void {
    this.#isHeld = true;
    this.#stream.pause();
  }

  releaseBody(): void {
    this.#isHeld = false;
    this.#stream.resume();
    this.#connection?.bodyTaken();
  }

  refuseBody(): void {
    this.#reset(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  answer({ status, headers }: AnswerLines, body: AnswerBody, first?: Bytes): void {
    if (this.#state !== "awaited" || this.isGone) return;
    this.#state = "begun";
    const lines: OutgoingHttpHeaders = { ":status": status };
    headers.forEach((value, name) => {
      const before = lines[name];
      if (before === undefined) lines[name] = value;
      else lines[name] = Array.isArray(before) ? [...before, value] : [String(before), value];
    });
    const hasNone = body === "none" || (body === "whole" && (first?.length ?? 0) === 0);
    try {
      this.#stream.respond(lines, { endStream: hasNone });
    } catch {
      // HTTP/1.1 has letters in headers that HTTP/2 has not.
      this.cut();
      return;
    }
    if (hasNone) this.#over();
    else if (first !== undefined && first.length > 0) this.write(first);
    if (body === "whole") this.end();
  }

  write(bytes: Bytes): boolean {
    if (this.#state !== "begun" || this.isGone) return true;
    return this.#stream.write(bytes, () => releaseBufferOf(bytes));
  }

  end(): void {
    if (this.#state !== "begun") return;
    this.#over();
    if (!this.isGone) this.#stream.end();
  }

  cut(): void {
    this.#reset(constants.NGHTTP2_INTERNAL_ERROR);
  }

  /** The stream is closed. */
  leave(): void {
    if (this.#state === "over" || this.isGone) return;
    this.isGone = true;
    this.onOver?.();
    this.onGone?.();
    this.#abort?.abort();
  }

  /** A client that has its answer need not send the rest of its body (RFC 9113, 8.1). */
  #over(): void {
    this.#state = "over";
    this.onOver?.();
    if (this.bodyBytes === 0 || this.#stream.readableEnded) return;
    this.#stream.once("finish", () => this.#reset(constants.NGHTTP2_NO_ERROR));
  }

  get #isBroken(): boolean {
    const { destroyed, aborted, rstCode } = this.#stream;
    return destroyed || aborted || rstCode !== constants.NGHTTP2_NO_ERROR;
  }

  /** Bun's `close` ends the stream before it resets it: the client would take a part of the answer for all of it. */
  #reset(code: number): void {
    const stream = this.#stream;
    if (stream.closed) return;
    if (!stream.writableEnded) stream.end = () => stream;
    stream.close(code);
  }
}

/**
 * What comes of a body in one turn, as one piece: clients send frames of 16 KiB, and each would be a system call.
 */
class GatheredFrames {
  readonly #flushed: (bytes: Bytes) => void;
  #frames: Bytes[] = [];

  constructor(flushed: (bytes: Bytes) => void) {
    this.#flushed = flushed;
  }

  add(bytes: Bytes): void {
    if (this.#frames.push(bytes) === 1) queueMicrotask(() => this.flush());
  }

  /** A copy, which is the sink's to free: of what a frame is a part of, somebody else may hold the other part. */
  flush(): void {
    const frames = this.#frames;
    if (frames.length === 0) return;
    this.#frames = [];
    const piece = Buffer.concat(frames);
    for (const one of frames) if (one.length === one.buffer.byteLength) releaseBufferOf(one);
    this.#flushed(piece);
  }
}
