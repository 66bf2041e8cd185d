/**
 * Checks each request to a site with a header rule and gets the rule's headers for it. A request that the site could
 * count as one for another host is never forwarded, because the value would reach that host.
 */
import { RULE_FORBIDDEN_HEADERS } from "../../contract/connection-headers.ts";
import { isToken } from "../../http1/header-lines.ts";
import type { RequestHead } from "../../http1/request-head.ts";
import type { Flow } from "./flow.ts";
import type { Destination, Prepared, Refusal } from "./http-flow.ts";
import { listed, requestOf } from "./http-head.ts";
import type { RuleServer } from "./rule-server.ts";
import type { SandboxTraffic } from "./sandbox-traffic.ts";

/** Name in lower case, and value. */
type RuleHeader = readonly [name: string, value: string];

/** Sites echo these requests with their headers. */
const ECHOED_METHODS: ReadonlySet<string> = new Set(["TRACE", "TRACK"]);
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const RULE_HEADERS_MAX_BYTES = 64 * 1024;

interface RuledSiteFacts {
  sandbox: SandboxTraffic;
  rules: RuleServer;
  /** The connection's name in lower case. */
  host: string;
  pattern: string;
  /** Why the site cannot be reached; all requests are refused with it. */
  failure: string | undefined;
  /** Whether the connection has ended. The sandbox's address may belong to another sandbox then. */
  isOver(): boolean;
}

export class RuledSite {
  readonly host: string;

  constructor(private readonly facts: RuledSiteFacts) {
    this.host = facts.host;
  }

  /** Starts the reason of each refusal. */
  get #rule(): string {
    return `header rule "${this.facts.pattern}"`;
  }

  /** `authority`: the host that the request names, with its port if it has one. */
  async headersFor(method: string, authority: string): Promise<readonly RuleHeader[] | Refusal> {
    const { sandbox, rules, host, pattern, failure, isOver } = this.facts;
    if (ECHOED_METHODS.has(method.toUpperCase()))
      return [405, `${this.#rule}: ${method} is refused, because a site echoes it`];
    if (!isFor(authority, host)) return [421, `${this.#rule}: the request is not for ${host}, which TLS is for`];
    if (failure !== undefined) return [502, failure];
    const delayMs = sandbox.ruledDelayMs();
    if (delayMs === undefined) return this.#fail(`${this.#rule}: too many requests of the sandbox wait already`);
    if (delayMs > 0) await Bun.sleep(delayMs);
    if (isOver()) return [502, `${this.#rule}: the connection has ended`];
    const answer = await rules.headers(sandbox.source, pattern, host);
    if ("failure" in answer) return this.#fail(answer.failure);
    const headers = answer.headers.map(([name, value]): RuleHeader => [name.toLowerCase(), value]);
    const bytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    const isUsable = headers.every(
      ([name, value]) => isToken(name) && !RULE_FORBIDDEN_HEADERS.has(sameName(name)) && VALUE.test(value),
    );
    return isUsable && bytes <= RULE_HEADERS_MAX_BYTES
      ? headers
      : this.#fail(`${this.#rule}: it has an invalid header`);
  }

  reportUnused(): void {
    const { sandbox, host } = this.facts;
    const why = "it may pin certificates, or not read the trusted ones of the system";
    sandbox.reportFailure(`${this.#rule}: a program connected to ${host} and left without a request; ${why}`);
  }

  #fail(failure: string): Refusal {
    this.facts.sandbox.reportFailure(failure);
    return [502, failure];
  }
}

/** Requests of HTTP/1.1. */
export class RuledHttp1 implements Destination {
  #hasRequests = false;

  constructor(
    private readonly site: RuledSite,
    private readonly flow: Flow,
  ) {}

  get isKept(): boolean {
    return this.#hasRequests;
  }

  async prepare(head: RequestHead, raw: Buffer<ArrayBuffer>): Promise<Prepared | Refusal> {
    this.#hasRequests = true;
    const request = requestOf(head, "https");
    if ("refused" in request) return [400, request.refused];
    const headers = await this.site.headersFor(head.method, head.headers.get("host") ?? "");
    if (isRefusal(headers)) return headers;
    const { upstream } = this.flow;
    if (upstream === undefined || upstream.isClosed) return [502, `${this.site.host} closed the connection`];
    const names = new Set(headers.map(([name]) => sameName(name)));
    // A proxy before the site would remove it.
    const removed = listed(head.headers, "connection").find((name) => names.has(sameName(name)));
    if (removed !== undefined) return [400, `its ${removed} is for the next server only`];
    return { upstream, request, head: withHeaders(raw, headers, names), neverTrailers: names };
  }

  left(): void {
    if (!this.#hasRequests) this.site.reportUnused();
  }
}

/** Servers that pass headers as variables, such as those of CGI, do not tell these names apart. */
export function sameName(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

/** The head with these headers instead of its own of the same names; all other bytes stay. */
function withHeaders(raw: Buffer, headers: readonly RuleHeader[], names: ReadonlySet<string>): Buffer<ArrayBuffer> {
  // The reader has rejected folded lines and bare line feeds, so each line is one header.
  const [first = "", ...lines] = raw.toString("latin1").trimStart().split("\r\n");
  const kept = lines.filter((line) => line !== "" && !names.has(sameName(line.slice(0, line.indexOf(":")))));
  const set = headers.map(([name, value]) => `${name}: ${value}`);
  return Buffer.from(`${[first, kept, set].flat().join("\r\n")}\r\n\r\n`, "latin1");
}

export function isRefusal(outcome: unknown): outcome is Refusal {
  return Array.isArray(outcome) && typeof outcome[0] === "number";
}

function isFor(authority: string, host: string): boolean {
  const named = authority.toLowerCase();
  return named === host || named === `${host}:443`;
}
