/**
 * A connection that carries HTTP/1: every request on it is judged. One is carried at a time, and the next is read when
 * its response is through, so that requests for different hosts go to different servers, and a refusal comes where the
 * client expects it. All bytes of requests and responses are passed on as they are.
 */
import { Body } from "./body.ts";
import type { Flow, NotReached } from "./flow.ts";
import { HeadReader } from "./head-reader.ts";
import { type HttpRequest, requestOf, responseOf } from "./http-head.ts";
import type { Peer } from "./peer.ts";

const SHOWN_NAME_MAX_CHARS = 253;
const SWITCHING_PROTOCOLS = 101;

/** A request and its response. */
interface Exchange {
  request: HttpRequest;
  requestBody: Body;
  responseHead: HeadReader;
  /** Undefined: its head is not whole yet. */
  responseBody: Body | undefined;
}

export class HttpFlow {
  readonly #flow: Flow;
  readonly #client: Peer;
  readonly #port: number;
  readonly #head = new HeadReader();
  /** The host that the flow is connected to. */
  #host: string | undefined;

  constructor(flow: Flow, port: number) {
    this.#flow = flow;
    this.#client = flow.client;
    this.#port = port;
    flow.expect(flow.sandbox.commons.bounds.helloMs);
    this.#readRequest();
  }

  #readRequest(): void {
    const { helloMs } = this.#flow.sandbox.commons.bounds;
    this.#client.events = {
      data: (piece) => {
        // The pause before a further request may be long; the request itself may not.
        if (this.#head.isEmpty && this.#host !== undefined) this.#flow.expect(helloMs);
        this.#flow.collect(piece.length);
        const found = this.#head.add(piece);
        if (found === undefined) return;
        this.#client.pause();
        this.#flow.expect(undefined);
        this.#flow.collect(undefined);
        if ("refused" in found) return this.#refuse(400, found.refused);
        this.#client.putBack(found.said.rest);
        this.#begin(found.said.head).catch(() => this.#flow.cut());
      },
      end: () => (this.#head.isEmpty ? this.#leave() : this.#flow.cut()),
      room: () => this.#flow.upstream?.resume(),
    };
    this.#client.resume();
  }

  async #begin(head: Buffer): Promise<void> {
    const request = requestOf(head);
    if ("refused" in request) return this.#refuse(400, request.refused);
    const host = request.host.toLowerCase();
    const { judge } = this.#flow.sandbox;
    if (!judge.allowsName(host)) return this.#refuse(403, notAllowed(host));
    let upstream = this.#flow.upstream;
    if (upstream === undefined || upstream.isClosed || host !== this.#host) {
      this.#flow.disconnect();
      const reached = await this.#flow.reach({ name: host }, this.#port);
      if (typeof reached === "string") return this.#refuse(...reasonOf(reached, host));
      upstream = reached;
      this.#host = host;
    }
    this.#exchange(upstream, head, {
      request,
      requestBody: new Body(request.framing, true),
      responseHead: new HeadReader(),
      responseBody: undefined,
    });
  }

  #exchange(upstream: Peer, head: Buffer, exchange: Exchange): void {
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
        if (!requestBody.isDone) this.#client.resume();
      },
    };
    if (upstream.write(head) && !requestBody.isDone) this.#client.resume();
    upstream.resume();
  }

  #passRequest(upstream: Peer, bytes: Buffer, { requestBody, responseBody }: Exchange): void {
    const length = requestBody.take(bytes);
    if (requestBody.isBroken) return void this.#flow.cut();
    const hasRoom = upstream.write(length === bytes.length ? bytes : bytes.subarray(0, length));
    if (hasRoom && !requestBody.isDone) return;
    this.#client.pause();
    // What follows waits, unread by us, until this one has been answered.
    if (length < bytes.length) this.#client.putBack(bytes.subarray(length));
    // A server may answer before it has heard all, and then nothing more comes from it.
    if (requestBody.isDone && responseBody?.isDone) this.#next(upstream);
  }

  #passResponse(upstream: Peer, bytes: Buffer, exchange: Exchange): void {
    if (exchange.responseBody === undefined) {
      const found = exchange.responseHead.add(bytes);
      if (found === undefined) return;
      // Not ours to mend: it goes on until the server ends it.
      const head = "said" in found ? found.said.head : exchange.responseHead.bytes;
      const rest = "said" in found ? found.said.rest : Buffer.alloc(0);
      const response = "said" in found ? responseOf(head, exchange.request.method) : undefined;
      upstream.putBack(rest);
      this.#toClient(upstream, head);
      if (response?.status === SWITCHING_PROTOCOLS) return void this.#switch(upstream, exchange);
      // One that announces another.
      if (response !== undefined && response.status < 200) return;
      exchange.responseBody = new Body(response?.framing ?? { kind: "close" }, false);
    } else {
      const { responseBody } = exchange;
      const length = responseBody.take(bytes);
      if (responseBody.isBroken) return void this.#flow.cut();
      this.#toClient(upstream, length === bytes.length ? bytes : bytes.subarray(0, length));
      // More than was announced: whatever it is, it is no answer to what comes next.
      if (length < bytes.length) return void this.#leave();
    }
    if (exchange.responseBody.isDone && exchange.requestBody.isDone) this.#next(upstream);
  }

  #toClient(upstream: Peer, bytes: Buffer): void {
    if (!this.#client.write(bytes)) upstream.pause();
  }

  /** From here on it is something else than HTTP, with the host that was judged. */
  #switch(upstream: Peer, { request, requestBody }: Exchange): void {
    if (!request.upgrade || !requestBody.isDone) return void this.#flow.cut();
    this.#flow.join(upstream);
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

  /** The server says no more; what it had to say may have been all. */
  #serverEnded({ responseBody }: Exchange): void {
    if (responseBody?.framing.kind === "close" || responseBody?.isDone) return void this.#leave();
    this.#flow.cut();
  }

  /** The client hears of the end after all that is on its way to it. */
  #leave(): void {
    this.#flow.disconnect();
    this.#flow.finish(undefined);
  }

  #refuse(status: number, why: string): void {
    this.#flow.disconnect();
    const reason = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" }[status] ?? "";
    const head = [
      `HTTP/1.1 ${status} ${reason}`,
      "content-type: text/plain; charset=utf-8",
      `content-length: ${Buffer.byteLength(`${why}\n`)}`,
      "connection: close",
    ];
    this.#client.write(Buffer.from(`${head.join("\r\n")}\r\n\r\n${why}\n`));
    this.#flow.finish(this.#flow.sandbox.commons.bounds.lingerMs);
  }
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
