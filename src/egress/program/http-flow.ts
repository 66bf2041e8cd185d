/**
 * Relays an HTTP/1 connection and checks each request. It handles one exchange at a time and reads the next request
 * when the response is complete. So requests for different hosts go to different servers, and a refusal arrives in
 * order. Bodies and responses pass unchanged.
 */
import { STATUS_CODES } from "node:http";
import { type Body, BodyUntilClose, ChunkedBody, CountedBody } from "../../http1/body.ts";
import { BadHead } from "../../http1/head-reader.ts";
import { type RequestHead, RequestHeadReader } from "../../http1/request-head.ts";
import {
  isBodiless,
  type ResponseHead,
  ResponseHeadReader,
  responseLength,
  SWITCHING_PROTOCOLS,
} from "../../http1/response-head.ts";
import { RELAY_HELLO_MAX_BYTES } from "./bounds.ts";
import type { Flow } from "./flow.ts";
import type { HttpRequest } from "./http-head.ts";
import type { Peer } from "./peer.ts";

type Bytes = Buffer<ArrayBuffer>;

const HEAD_BOUNDS = { maxBytes: RELAY_HELLO_MAX_BYTES };
const NOTHING: Bytes = Buffer.alloc(0);
const NONE: ReadonlySet<string> = new Set();

/** The status and the text of a response that the relay itself gives. */
export type Refusal = readonly [status: number, why: string];

/** A request that is allowed. */
export interface Prepared {
  request: HttpRequest;
  upstream: Peer;
  /** The head to forward. */
  head: Bytes;
  /** Further names, in lower case and with "-" for "_", that the request's trailers must not have. */
  neverTrailers?: ReadonlySet<string>;
}

/** Decides where the requests of a connection go. */
export interface Destination {
  /** Whether there was a request: the next one may take long to begin. */
  readonly isKept: boolean;
  prepare(head: RequestHead, raw: Bytes): Promise<Prepared | Refusal>;
  /** The client left between two requests. */
  left?(): void;
}

interface Exchange {
  request: HttpRequest;
  requestBody: Body;
  responseHead: ResponseHeadReader;
  /** Undefined: its head is not whole yet. */
  responseBody: Body | undefined;
}

export class HttpFlow {
  readonly #client: Peer;
  readonly #head = new RequestHeadReader(HEAD_BOUNDS);

  constructor(
    private readonly flow: Flow,
    private readonly destination: Destination,
  ) {
    this.#client = flow.client;
    flow.expect(flow.sandbox.shared.bounds.helloMs);
    this.#readRequest();
  }

  #readRequest(): void {
    const { helloMs } = this.flow.sandbox.shared.bounds;
    this.#client.events = {
      data: (piece) => {
        // The wait before a further request may be long, but the request itself must arrive in time.
        if (this.#head.isEmpty && this.destination.isKept) this.flow.expect(helloMs);
        this.flow.collect(piece.length);
        const found = orBad(() => this.#head.take(piece));
        if (found === undefined) return;
        this.#client.pause();
        this.flow.expect(undefined);
        this.flow.collect(undefined);
        if (found instanceof BadHead) return this.#refuse(400, found.message);
        this.#client.putBack(found.rest);
        this.#begin(found.head, found.raw).catch(() => this.flow.cut());
      },
      end: () => {
        if (!this.#head.isEmpty) return this.flow.cut();
        this.destination.left?.();
        this.#leave();
      },
      room: () => this.flow.upstream?.resume(),
    };
    this.#client.resume();
  }

  async #begin(head: RequestHead, raw: Bytes): Promise<void> {
    const prepared = await this.destination.prepare(head, raw);
    if (this.flow.isOver) return;
    if (!("upstream" in prepared)) return this.#refuse(...prepared);
    const { request, neverTrailers } = prepared;
    this.#exchange(prepared.upstream, prepared.head, {
      request,
      requestBody: bodyOfRequest(request, neverTrailers),
      responseHead: new ResponseHeadReader(HEAD_BOUNDS),
      responseBody: undefined,
    });
  }

  #exchange(upstream: Peer, head: Bytes, exchange: Exchange): void {
    const { requestBody } = exchange;
    this.#client.events = {
      data: (bytes) => this.#passRequest(upstream, bytes, exchange),
      end: () => upstream.finish(),
      room: () => upstream.resume(),
    };
    upstream.events = {
      data: (bytes) => this.#passResponse(upstream, bytes, exchange),
      end: () => this.#serverEnded(exchange),
      room: () => {
        if (!requestBody.ended) this.#client.resume();
      },
    };
    if (upstream.write(head) && !requestBody.ended) this.#client.resume();
    upstream.resume();
  }

  #passRequest(upstream: Peer, bytes: Bytes, { requestBody, responseBody }: Exchange): void {
    const length = lengthTaken(requestBody, bytes);
    if (length === undefined) return void this.flow.cut();
    const hasRoom = upstream.write(length === bytes.length ? bytes : bytes.subarray(0, length));
    if (hasRoom && !requestBody.ended) return;
    this.#client.pause();
    // The next request stays unread until this one has its response.
    if (length < bytes.length) this.#client.putBack(bytes.subarray(length));
    // A server may answer before it has heard all, and then nothing more comes from it.
    if (requestBody.ended && responseBody?.ended) this.#next(upstream);
  }

  #passResponse(upstream: Peer, bytes: Bytes, exchange: Exchange): void {
    if (exchange.responseBody === undefined) {
      const { responseHead } = exchange;
      const found = orBad(() => responseHead.take(bytes));
      if (found === undefined) return;
      // A malformed response is relayed until the server closes the connection.
      const isBad = found instanceof BadHead;
      const status = isBad ? undefined : found.head.status;
      upstream.putBack(isBad ? NOTHING : found.rest);
      this.#toClient(upstream, isBad ? responseHead.bytes : found.raw);
      if (status === SWITCHING_PROTOCOLS) return void this.#switch(upstream, exchange);
      // An interim response.
      if (status !== undefined && status < 200) return;
      exchange.responseBody = isBad ? new BodyUntilClose() : bodyOfResponse(exchange.request.method, found.head);
    } else {
      const { responseBody } = exchange;
      const length = lengthTaken(responseBody, bytes);
      if (length === undefined) return void this.flow.cut();
      this.#toClient(upstream, length === bytes.length ? bytes : bytes.subarray(0, length));
      // More bytes than announced: they must not count as the next response.
      if (length < bytes.length) return void this.#leave();
    }
    if (exchange.responseBody.ended && exchange.requestBody.ended) this.#next(upstream);
  }

  #toClient(upstream: Peer, bytes: Bytes): void {
    if (!this.#client.write(bytes)) upstream.pause();
  }

  /** After an upgrade the connection is no longer HTTP, but stays with the checked host. */
  #switch(upstream: Peer, { request, requestBody }: Exchange): void {
    if (!request.upgrade || !requestBody.ended) return void this.flow.cut();
    this.flow.join(upstream);
  }

  #next(upstream: Peer): void {
    if (upstream.hasEnded) return void this.#leave();
    upstream.events = {
      data: () => this.#leave(),
      end: () => this.#leave(),
      room: () => undefined,
    };
    this.#readRequest();
  }

  /** The server closed; its response may be complete. */
  #serverEnded({ responseBody }: Exchange): void {
    if (responseBody?.endsWithConnection || responseBody?.ended) return void this.#leave();
    this.flow.cut();
  }

  /** Closes the client's connection after all pending bytes. */
  #leave(): void {
    this.flow.disconnect();
    this.flow.finish(undefined);
  }

  #refuse(status: number, why: string): void {
    refuseRequest(this.flow, status, why);
  }
}

/** Responds with the reason and closes the connection. */
export function refuseRequest(flow: Flow, status: number, why: string): void {
  flow.disconnect();
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    "content-type: text/plain; charset=utf-8",
    `content-length: ${Buffer.byteLength(`${why}\n`)}`,
    "connection: close",
  ];
  flow.client.write(Buffer.from(`${head.join("\r\n")}\r\n\r\n${why}\n`));
  flow.finish(flow.sandbox.shared.bounds.lingerMs);
}

/** What `read` gives, or why it rejects the head. */
function orBad<Found>(read: () => Found): Found | BadHead {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof BadHead) return thrown;
    throw thrown;
  }
}

/** Number of bytes that belong to the body; undefined: they break its framing. */
function lengthTaken(body: Body, bytes: Bytes): number | undefined {
  try {
    return body.take(bytes).length;
  } catch {
    return undefined;
  }
}

function bodyOfRequest({ bodyBytes }: HttpRequest, neverTrailers: ReadonlySet<string> = NONE): Body {
  if (bodyBytes !== undefined) return new CountedBody(bodyBytes);
  return new ChunkedBody({ lines: "kept", refusesExtensions: true, neverTrailers });
}

function bodyOfResponse(method: string, head: ResponseHead): Body {
  if (isBodiless(method, head)) return new CountedBody(0);
  const length = orBad(() => responseLength(head));
  if (length === "chunked") return new ChunkedBody({ lines: "kept" });
  return typeof length === "number" ? new CountedBody(length) : new BodyUntilClose();
}
