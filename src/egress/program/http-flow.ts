/**
 * Relays an HTTP/1 connection and judges each request. It handles one exchange at a time and reads the next request
 * when the response is complete. So requests for different hosts go to different servers, and a refusal arrives in
 * order. Requests and responses pass unchanged.
 */
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
import type { Flow, NotReached } from "./flow.ts";
import { type HttpRequest, requestOf } from "./http-head.ts";
import type { Peer } from "./peer.ts";

type Bytes = Buffer<ArrayBuffer>;

const SHOWN_NAME_MAX_CHARS = 253;
const HEAD_BOUNDS = { maxBytes: RELAY_HELLO_MAX_BYTES };
const NOTHING: Bytes = Buffer.alloc(0);

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
  /** The host that the flow is connected to. */
  #host: string | undefined;

  constructor(
    private readonly flow: Flow,
    private readonly port: number,
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
        if (this.#head.isEmpty && this.#host !== undefined) this.flow.expect(helloMs);
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
      end: () => (this.#head.isEmpty ? this.#leave() : this.flow.cut()),
      room: () => this.flow.upstream?.resume(),
    };
    this.#client.resume();
  }

  async #begin(head: RequestHead, raw: Bytes): Promise<void> {
    const request = requestOf(head);
    if ("refused" in request) return this.#refuse(400, request.refused);
    const host = request.host.toLowerCase();
    const { judge, shared } = this.flow.sandbox;
    if (!judge.allowsName(host)) {
      shared.decisions.add("forbidden");
      return this.#refuse(403, notAllowed(host));
    }
    let upstream = this.flow.upstream;
    if (upstream === undefined || upstream.isClosed || host !== this.#host) {
      this.flow.disconnect();
      const reached = await this.flow.reach({ name: host }, this.port);
      if (typeof reached === "string") return this.#refuse(...reasonOf(reached, host));
      upstream = reached;
      this.#host = host;
    }
    this.#exchange(upstream, raw, {
      request,
      requestBody: bodyOfRequest(request),
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

  /** After an upgrade the connection is no longer HTTP, but stays with the judged host. */
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
    this.flow.disconnect();
    const reason = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" }[status] ?? "";
    const head = [
      `HTTP/1.1 ${status} ${reason}`,
      "content-type: text/plain; charset=utf-8",
      `content-length: ${Buffer.byteLength(`${why}\n`)}`,
      "connection: close",
    ];
    this.#client.write(Buffer.from(`${head.join("\r\n")}\r\n\r\n${why}\n`));
    this.flow.finish(this.flow.sandbox.shared.bounds.lingerMs);
  }
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

function bodyOfRequest({ bodyBytes }: HttpRequest): Body {
  if (bodyBytes !== undefined) return new CountedBody(bodyBytes);
  return new ChunkedBody({ lines: "kept", refusesExtensions: true });
}

function bodyOfResponse(method: string, head: ResponseHead): Body {
  if (isBodiless(method, head)) return new CountedBody(0);
  const length = orBad(() => responseLength(head));
  if (length === "chunked") return new ChunkedBody({ lines: "kept" });
  return typeof length === "number" ? new CountedBody(length) : new BodyUntilClose();
}

function notAllowed(host: string): string {
  return `${JSON.stringify(host.slice(0, SHOWN_NAME_MAX_CHARS))} is not allowed by the network rules of this sandbox`;
}

function reasonOf(why: NotReached, host: string): [status: number, text: string] {
  const name = JSON.stringify(host.slice(0, SHOWN_NAME_MAX_CHARS));
  switch (why) {
    case "unknown":
      return [502, `${name} has no IPv4 address that could be found`];
    case "closed":
      return [403, `${name} leads to addresses that are closed to every sandbox`];
    case "silent":
      return [502, `${name} does not answer`];
    default:
      return [403, notAllowed(host)];
  }
}
