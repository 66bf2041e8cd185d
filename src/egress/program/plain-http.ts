/**
 * HTTP without TLS: each request goes to the host that it names, if the sandbox's rules allow that. A host with a
 * header rule is refused, because the rule's values must not travel in clear text.
 */
import { BadHead } from "../../http1/head-reader.ts";
import { type RequestHead, RequestHeadReader } from "../../http1/request-head.ts";
import { RELAY_HELLO_MAX_BYTES } from "./bounds.ts";
import type { Flow, NotReached } from "./flow.ts";
import { type Destination, HttpFlow, type Prepared, type Refusal, refuseRequest } from "./http-flow.ts";
import { requestOf } from "./http-head.ts";
import { type ChosenAddress, carry } from "./tls-flow.ts";

const SHOWN_NAME_MAX_CHARS = 253;

/** `chosen`: where everything goes that is not for a host with a header rule. Undefined: to the named host. */
export function relayHttp(flow: Flow, port: number, chosen?: ChosenAddress): void {
  if (chosen === undefined) void new HttpFlow(flow, new NamedHosts(flow, port));
  else relayChosen(flow, chosen);
}

/** Only the first request is read: the address stays the one that the sandbox chose, and no value is ever set here. */
function relayChosen(flow: Flow, chosen: ChosenAddress): void {
  const reader = new RequestHeadReader({ maxBytes: RELAY_HELLO_MAX_BYTES });
  const { client, sandbox } = flow;
  const read: Buffer[] = [];
  const pass = () => carry(flow, chosen, Buffer.concat(read));
  flow.expect(sandbox.shared.bounds.helloMs, pass);
  client.events = {
    data: (piece) => {
      flow.collect(piece.length);
      read.push(Buffer.from(piece));
      const host = hostIn(reader, piece);
      if (host === undefined) return;
      client.pause();
      flow.expect(undefined);
      const refusal = inClearText(flow, host);
      if (refusal === undefined) pass();
      else refuseRequest(flow, ...refusal);
    },
    end: () => flow.cut(),
    room: () => undefined,
  };
  client.resume();
}

/** Empty: it is not HTTP, or names no host. Undefined: there has to be more. */
function hostIn(reader: RequestHeadReader, piece: Buffer<ArrayBuffer>): string | undefined {
  try {
    const found = reader.take(piece);
    if (found === undefined) return undefined;
    const request = requestOf(found.head, "http");
    return "refused" in request ? "" : request.host;
  } catch (thrown) {
    if (thrown instanceof BadHead) return "";
    throw thrown;
  }
}

class NamedHosts implements Destination {
  /** The host that the flow is connected to. */
  #host: string | undefined;

  constructor(
    private readonly flow: Flow,
    private readonly port: number,
  ) {}

  get isKept(): boolean {
    return this.#host !== undefined;
  }

  async prepare(head: RequestHead, raw: Buffer<ArrayBuffer>): Promise<Prepared | Refusal> {
    const request = requestOf(head, "http");
    if ("refused" in request) return [400, request.refused];
    const host = request.host.toLowerCase();
    const refusal = inClearText(this.flow, host);
    if (refusal !== undefined) return refusal;
    const { matcher, shared } = this.flow.sandbox;
    if (!matcher.allowsName(host)) {
      shared.decisions.add("forbidden");
      return [403, notAllowed(host)];
    }
    let { upstream } = this.flow;
    if (upstream === undefined || upstream.isClosed || host !== this.#host) {
      this.flow.disconnect();
      const reached = await this.flow.reach({ name: host }, this.port);
      if (typeof reached === "string") return reasonOf(reached, host);
      upstream = reached;
      this.#host = host;
    }
    return { request, upstream, head: raw };
  }
}

function inClearText({ sandbox }: Flow, host: string): Refusal | undefined {
  const rule = sandbox.matcher.ruleOf(host);
  if (rule === undefined) return undefined;
  const remedy = "use https, so that the values of the rule are not sent in clear text";
  return [403, `${shown(host)} has the header rule "${rule}": ${remedy}`];
}

function notAllowed(host: string): string {
  return `${shown(host)} is not allowed by the network rules of this sandbox`;
}

function reasonOf(why: NotReached, host: string): Refusal {
  const name = shown(host);
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

function shown(host: string): string {
  return JSON.stringify(host.slice(0, SHOWN_NAME_MAX_CHARS));
}
