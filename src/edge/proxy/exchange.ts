/**
 * Proxies one request to a service: the request over a new connection, the response back. Long bodies are streamed with
 * backpressure in both directions, and the end or failure of each side reaches the other. A response with invalid
 * framing, or one that ends early, also breaks the client's response.
 */
import type { Spliced } from "../../base/splicing.ts";
import { beginStep } from "../../base/steps.ts";
import { type Body, BodyUntilClose, ChunkedBody, CountedBody } from "../../http1/body.ts";
import type { HeaderLines } from "../../http1/header-lines.ts";
import { isBodiless, type ResponseHead, responseLength, SWITCHING_PROTOCOLS } from "../../http1/response-head.ts";
import type { BodySink, ClientRequest, ClientTunnel, ResponseBody, ResponseLines } from "../front/client-request.ts";
import { EDGE_CHUNKS_AT_ONCE_MAX, EDGE_JOINED_PIECE_MAX_BYTES, EDGE_SPLICED_MIN_BYTES } from "../limits.ts";
import { linesTowardsClient } from "./forwarded-headers.ts";
import { type ServiceHead, ServiceHeadReader } from "./response-head.ts";
import { type ConnectOptions, SandboxSocket, type SandboxSocketListener } from "./sandbox-socket.ts";
import { acceptedUpgrade } from "./upgrade.ts";

type Bytes = Buffer<ArrayBuffer>;

/** The request as sent to the service. */
export interface OutgoingRequest {
  /** Request line and headers, without Transfer-Encoding and without the final empty line. */
  head: string;
  /** The sandbox's own runtime always gives the length of a response; one that just ends may have been cut short. */
  isGuest: boolean;
  /** Headers of the response that the edge decides, in place of the service's. */
  ownOfResponse?: HeaderLines | undefined;
  /** Headers of the service's response that do not reach the client. */
  withheld?: ReadonlySet<string> | undefined;
  /** Protocols that the client offers in Upgrade. The connection becomes a tunnel once the service accepts one. */
  upgrade?: string | undefined;
}

const STATUS_MIN = 200;
const STATUS_MAX = 599;
const NO_CONTENT = 204;
const RESET_CONTENT = 205;
const NOTHING: Bytes = Buffer.alloc(0);
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** The outcome until the response begins. After that, the exchange runs on its own. */
interface ExchangeListener {
  /** The response has begun. */
  responded?(): void;
  /**
   * There is no response. With code ECONNREFUSED, because nothing listens there, or ENOTCONN, because either end left
   * first, the request is untouched, and may be sent elsewhere.
   */
  failed(failure: unknown): void;
}

export function startExchange(
  client: ClientRequest,
  request: OutgoingRequest,
  connect: ConnectOptions,
  listener: ExchangeListener,
): void {
  new Exchange(client, request, listener).begin(connect);
}

/** Resolves when the response has begun. Rejects when there is none. */
export function proxy(client: ClientRequest, request: OutgoingRequest, connect: ConnectOptions): Promise<void> {
  return new Promise((responded, failed) => startExchange(client, request, connect, { responded, failed }));
}

class Exchange implements SandboxSocketListener, BodySink {
  #socket!: SandboxSocket;
  #reader: ServiceHeadReader | undefined;
  /** How the end of the response's body is found. */
  #framing: Body | undefined;
  #tunnel: ClientTunnel | undefined;
  #isOver = false;
  /** Bytes to send before the next chunk of the request's body. */
  #before = NOTHING;
  #chunks = 0;
  #isHeld = false;
  #isBodyLost = false;
  /** The rest of the response is spliced to the client. */
  #isSpliced = false;
  /** Bytes of the response since its last splice. */
  #copiedBytes = 0;
  #endStep: (() => void) | undefined;

  constructor(
    private readonly client: ClientRequest,
    private readonly request: OutgoingRequest,
    private readonly listener: ExchangeListener,
  ) {}

  begin(connect: ConnectOptions): void {
    const client = this.client;
    this.#nextStep("edge: connect");
    const socket = new SandboxSocket(connect, this);
    this.#socket = socket;
    client.onDisconnect = () => socket.cut();
    if (client.isDisconnected) socket.cut();
  }

  opened(socket: SandboxSocket): void {
    const client = this.client;
    this.#socket = socket;
    client.chargeTo?.(socket.held);
    this.#nextStep("edge: wait for the response");
    const framing = this.#inChunks ? "transfer-encoding: chunked\r\n" : "";
    this.#before = Buffer.from(`${this.request.head}${framing}\r\n`, "latin1");
    if (client.bodyBytes !== 0 || this.request.upgrade !== undefined) socket.expectToSendMuch();
    if (client.bodyBytes !== 0) client.sendBodyTo(this);
    if (this.#before.length > 0) this.#send(NOTHING);
  }

  notOpened(failure: unknown): void {
    this.#isOver = true;
    this.#endStep?.();
    this.client.onDisconnect = undefined;
    this.listener.failed(failure);
  }

  get #inChunks(): boolean {
    return this.client.bodyBytes === undefined;
  }

  /** A chunk of the request's body. */
  piece(bytes: Bytes): void {
    if (this.#isOver || this.#isBodyLost || this.#socket.isClosed) return;
    if (this.#inChunks) {
      const size = `${this.#chunks++ > 0 ? "\r\n" : ""}${bytes.length.toString(16)}\r\n`;
      this.#before = Buffer.concat([this.#before, Buffer.from(size)]);
    }
    this.#send(bytes);
    if (this.#socket.hasSentAll) this.#spliceBody();
    if (!this.#socket.isFull) return;
    this.#isHeld = true;
    this.client.holdBody();
  }

  #spliceBody(): void {
    const client = this.client;
    if (this.#inChunks) return;
    client.spliceBody?.((descriptor, bytes) =>
      this.#socket.spliceFrom(descriptor, bytes, ({ taken, given, couldNot }) => {
        if (couldNot || given === bytes || this.#isOver) client.bodySpliced?.(taken);
        // The client sent no more of it, so it has left.
        else if (given === taken) client.cut();
        else this.#bodyLost(taken);
      }),
    );
  }

  /** The service reads no more, and bytes in flight are lost. It may still have sent a response. */
  #bodyLost(taken: number): void {
    this.#isBodyLost = true;
    this.client.bodySpliced?.(taken);
    this.#socket.finish();
  }

  ended(): void {
    if (this.#isOver || !this.#inChunks) return;
    const last = this.#chunks > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n";
    this.#send(Buffer.from(last));
  }

  /** Bytes from the service. */
  data(bytes: Bytes): void {
    if (this.#isOver) return;
    try {
      // Bun reads a connection that is reset even while it is paused, so the order of its bytes is unknown.
      if (this.#isSpliced) throw new Error("the service closed the connection during its response");
      if (this.#tunnel !== undefined) this.#pass(this.#tunnel.write(bytes));
      else if (this.#framing !== undefined) this.#takeBody(this.#framing, bytes);
      else {
        this.#reader ??= new ServiceHeadReader();
        const head = this.#reader.take(bytes);
        if (head !== undefined) this.#begin(head);
      }
    } catch (failure) {
      this.#fail(failure);
    }
  }

  /** The service keeps up again. */
  drained(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    if (this.#tunnel !== undefined) this.#tunnel.resume();
    else this.client.releaseBody();
  }

  closed(): void {
    // Its last bytes may still be in the splice.
    if (this.#isOver || this.#isSpliced) return;
    if (this.#tunnel !== undefined) {
      this.#isOver = true;
      // A broken connection is not a regular end, as below.
      if (this.#socket.peerEnded) this.#tunnel.end();
      else this.#tunnel.cut();
      return;
    }
    // A broken connection is not a regular end: the client must not take a part for the whole.
    if (this.#framing?.endsWithConnection && this.#socket.peerEnded) this.#finish();
    else this.#fail(new Error("the service closed the connection during its response"));
  }

  #nextStep(name: string): void {
    this.#endStep?.();
    this.#endStep = beginStep(name, this.client.trace?.context);
  }

  #begin({ status, statusText, headers, rest }: ServiceHead): void {
    this.#nextStep("edge: forward the response");
    const { ownOfResponse, withheld } = this.request;
    const lines = { status, statusText, headers: linesTowardsClient(headers, ownOfResponse, withheld) };
    if (status === SWITCHING_PROTOCOLS) {
      const agreed = acceptedUpgrade(this.request.upgrade, headers);
      if (agreed === undefined) throw new Error("the service changed to a protocol that was not offered");
      lines.headers.append("connection", "Upgrade");
      lines.headers.append("upgrade", agreed);
      this.#becomeTunnel(lines, rest);
      return;
    }
    if (status < STATUS_MIN || status > STATUS_MAX) throw new Error("the service's response has no valid status");
    if (status === NO_CONTENT || status === RESET_CONTENT) this.#respondWithoutBody(withoutLength(lines));
    else if (isBodiless(this.client.method, { status })) this.#respondWithoutBody(lines);
    else {
      // A chunked body that has probably arrived whole is sent with its length instead.
      const keepsChunks = this.client.readsChunks === true && !endsWithLastChunk(rest);
      const framing = bodyOf({ headers }, keepsChunks);
      if (this.request.isGuest && framing.endsWithConnection) throw new Error("the runtime's response has no length");
      this.#framing = framing;
      const first = this.#contentOf(framing, rest);
      this.listener.responded?.();
      if (!framing.ended) this.#socket.keepAlive();
      this.client.onDrained = () => this.#socket.resume();
      this.client.respond(lines, responseBodyOf(framing), first);
      if (framing.ended) this.#finish();
    }
  }

  #respondWithoutBody(lines: ResponseLines): void {
    this.listener.responded?.();
    this.client.respond(lines, "none");
    this.#leave();
  }

  #takeBody(framing: Body, bytes: Bytes): void {
    this.#copiedBytes += bytes.length;
    this.#pass(this.client.write(this.#contentOf(framing, bytes)));
    if (framing.ended) this.#finish();
    else this.#spliceResponse(framing);
  }

  /** A part, if the whole would be too much for one turn: copied then, since the rest of its buffer is still needed. */
  #contentOf(framing: Body, bytes: Bytes): Bytes {
    const content = framing.take(bytes);
    const { untaken = 0 } = framing;
    if (untaken === 0) return content;
    this.#socket.later(bytes.subarray(bytes.length - untaken));
    return Buffer.from(content);
  }

  #spliceResponse(framing: Body): void {
    const { left = 0, untaken = 0 } = framing;
    const inChunks = framing instanceof ChunkedBody;
    if (left === 0 || untaken > 0 || (inChunks && framing.lines !== "plain")) return;
    // The length of a chunked body is unknown: one that has been long so far is expected to continue.
    if ((inChunks ? this.#copiedBytes : left) < EDGE_SPLICED_MIN_BYTES) return;
    const descriptor = this.client.responseDescriptor;
    if (descriptor === undefined) return;
    const over = ({ isWhole, couldNot }: Spliced) => {
      this.#isSpliced = false;
      this.#copiedBytes = 0;
      if (this.#isOver) return;
      // Whole chunks may have passed behind this one; the reader continues at the end of the last one's content.
      if (isWhole) framing.skip?.(left);
      if (framing.ended) this.#finish();
      else if ((isWhole || couldNot) && !this.#socket.isClosed) this.#socket.resume();
      else this.#fail(new Error("the service closed the connection during its response"));
    };
    this.#isSpliced = this.#socket.spliceTo(descriptor, left, inChunks, over);
    if (this.#isSpliced) this.#socket.pause();
  }

  #pass(hasRoom: boolean): void {
    if (!hasRoom) this.#socket.holdBack();
  }

  #finish(): void {
    this.#leave();
    this.client.end();
  }

  /** The response is complete; anything more from the service is ignored. */
  #leave(): void {
    this.#isOver = true;
    this.#endStep?.();
    this.client.onDisconnect = undefined;
    this.#socket.finish();
  }

  #fail(failure: unknown): void {
    this.#isOver = true;
    this.#endStep?.();
    const wasBegun = this.#framing !== undefined;
    this.client.onDisconnect = undefined;
    this.#socket.terminate();
    if (wasBegun) this.client.cut();
    else this.listener.failed(failure);
  }

  #send(bytes: Bytes): void {
    const before = this.#before;
    this.#before = NOTHING;
    if (before.length > 0 && bytes.length <= EDGE_JOINED_PIECE_MAX_BYTES) {
      this.#socket.write(Buffer.concat([before, bytes]));
      return;
    }
    if (before.length > 0) this.#socket.write(before);
    this.#socket.write(bytes);
  }

  #becomeTunnel(head: ResponseLines, rest: Bytes): void {
    const tunnel = this.client.tunnel?.(head);
    if (tunnel === undefined) throw new Error("the client's protocol has no tunnels");
    this.#tunnel = tunnel;
    this.#endStep?.();
    this.listener.responded?.();
    this.client.onDisconnect = undefined;
    this.#socket.keepAlive();
    tunnel.onData = (bytes) => {
      this.#socket.write(bytes);
      if (!this.#socket.isFull) return;
      this.#isHeld = true;
      tunnel.pause();
    };
    tunnel.onDrained = () => this.#socket.resume();
    tunnel.onClosed = () => {
      this.#isOver = true;
      this.#socket.finish();
    };
    if (rest.length > 0) tunnel.write(Buffer.from(rest));
  }
}

/** Throws when the headers leave any doubt about where the body ends. */
function bodyOf(head: Pick<ResponseHead, "headers">, keepsChunks: boolean): Body {
  const length = responseLength(head);
  const lines = keepsChunks ? "plain" : "dropped";
  if (length === "chunked") return new ChunkedBody({ lines, chunksAtOnce: EDGE_CHUNKS_AT_ONCE_MAX });
  return length === "close" ? new BodyUntilClose() : new CountedBody(length);
}

function responseBodyOf(framing: Body): ResponseBody {
  if (framing instanceof ChunkedBody && framing.lines === "plain") return "chunks";
  return framing.ended ? "whole" : "follows";
}

function endsWithLastChunk(bytes: Bytes): boolean {
  return LAST_CHUNK.equals(bytes.subarray(-LAST_CHUNK.length));
}

/** 204 has no body and no length; the length of 205 is always 0 (RFC 9110, 8.6 and 15.3.6). */
function withoutLength({ status, statusText, headers }: ResponseLines): ResponseLines {
  return { status, statusText, headers: headers.without("content-length", status === RESET_CONTENT ? "0" : undefined) };
}
