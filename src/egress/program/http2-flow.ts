/**
 * Forwards the streams of an HTTP/2 connection to a site with a header rule. Node's HTTP/2 module handles both ends, so
 * each side's flow control reaches the other: a stream that one end does not read is not read from the other.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  sensitiveHeaders,
} from "node:http2";
import { HTTP2_FORBIDDEN_HEADERS } from "../../contract/connection-headers.ts";
import { isToken } from "../../http1/header-lines.ts";
import { RELAY_HELLO_MAX_BYTES } from "./bounds.ts";
import type { Flow } from "./flow.ts";
import type { Refusal } from "./http-flow.ts";
import { Http2Ends } from "./http2-ends.ts";
import { PeerStream } from "./peer-stream.ts";
import { isRefusal, type RuledSite, sameName } from "./rule-requests.ts";

/** Concurrent requests of one connection. */
const RULE_HTTP2_STREAMS_MAX = 100;
const RULE_HTTP2_HEADERS_MAX = 1000;
/**
 * How much the site may send ahead, and the sandbox, which is near: for a stream, and for the connection. An unread
 * stream leaves room for others. Bun's module opens a stream's window again after half of the connection's, so the
 * former must be larger than that.
 */
const SITE_STREAM_BYTES = 1280 * 1024;
const SITE_CONNECTION_BYTES = 2 * 1024 * 1024;
const SANDBOX_STREAM_BYTES = 640 * 1024;
const SANDBOX_CONNECTION_BYTES = 1024 * 1024;
const END_STREAM = 1;
const SWITCHING_PROTOCOLS = 101;
/** As the reader of HTTP/1 and `hostOf` accept it: a site could read another host out of anything else. */
const PATH = /^\/[!-~\x80-\xff]*$/;

const NO_NAMES: ReadonlySet<string> = new Set();
const shared = {
  maxHeaderListPairs: RULE_HTTP2_HEADERS_MAX,
  maxSendHeaderBlockLength: 2 * RELAY_HELLO_MAX_BYTES,
};
const server = createServer({
  ...shared,
  settings: {
    maxConcurrentStreams: RULE_HTTP2_STREAMS_MAX,
    initialWindowSize: SANDBOX_STREAM_BYTES,
    maxHeaderListSize: RELAY_HELLO_MAX_BYTES,
    enablePush: false,
  },
});
/** The connection of the session that begins next: the module begins it during the event. */
let beginning: Http2Relay | undefined;
server.on("session", (session) => beginning?.begin(session));
server.on("sessionError", () => undefined);

export function relayHttp2(flow: Flow, site: RuledSite): void {
  const relay = new Http2Relay(flow, site);
  beginning = relay;
  server.emit("connection", relay.client);
  beginning = undefined;
}

class Http2Relay {
  readonly client: PeerStream;
  readonly #ends = { client: new Http2Ends("client"), site: new Http2Ends("server") };
  readonly #site: ClientHttp2Session | undefined;
  #session: ServerHttp2Session | undefined;
  #hasRequests = false;

  constructor(
    private readonly flow: Flow,
    private readonly ruled: RuledSite,
  ) {
    const { sandbox, upstream } = flow;
    sandbox.countHttp2(1);
    flow.whenGone(() => {
      sandbox.countHttp2(-1);
      this.#end();
    });
    this.client = new PeerStream(flow.client, (bytes) => this.#ends.client.read(bytes));
    this.client.once("close", () => {
      if (!this.#hasRequests) ruled.reportUnused();
      flow.cut();
    });
    this.#site =
      upstream === undefined
        ? undefined
        : this.#connect(new PeerStream(upstream, (bytes) => this.#ends.site.read(bytes)));
    flow.expect(sandbox.shared.bounds.helloMs);
  }

  #connect(stream: PeerStream): ClientHttp2Session {
    const session = connect(`https://${this.ruled.host}`, {
      ...shared,
      createConnection: () => stream,
      settings: {
        initialWindowSize: SITE_STREAM_BYTES,
        maxHeaderListSize: RELAY_HELLO_MAX_BYTES,
        enablePush: false,
      },
    });
    const fail = () => this.flow.cut();
    const connected = () => session.setLocalWindowSize(SITE_CONNECTION_BYTES);
    const leave = guarded(() => this.#session?.close(), fail);
    session.once("connect", guarded(connected, fail));
    session.on(
      "error",
      guarded(() => session.destroy(), fail),
    );
    session.on("goaway", leave);
    session.on("close", leave);
    return session;
  }

  /** Also without an event of the connections, so that nothing keeps the sessions. */
  #end(): void {
    this.client.destroy();
    this.#session?.destroy();
    this.#site?.destroy();
  }

  begin(session: ServerHttp2Session): void {
    this.#session = session;
    session.setLocalWindowSize(SANDBOX_CONNECTION_BYTES);
    session.on(
      "error",
      guarded(
        () => session.destroy(),
        () => this.flow.cut(),
      ),
    );
    session.on("close", () => this.flow.cut());
    session.once("remoteSettings", () => this.flow.expect(undefined));
    session.on("stream", (stream, _, flags, raw: unknown) => {
      // Without a listener, an error event would throw.
      stream.on("error", () => undefined);
      this.#hasRequests = true;
      this.#request(stream, raw as string[], (flags & END_STREAM) !== 0).catch(() => reset(stream));
    });
  }

  async #request(stream: ServerHttp2Stream, raw: readonly string[], hasEnded: boolean): Promise<void> {
    // Nothing of the body is read until the request is forwarded.
    const head = headOf(raw);
    if (head === undefined) return reset(stream);
    const set = await this.ruled.headersFor(head.method, head.authority);
    if (stream.destroyed) return;
    if (isRefusal(set)) return refuse(stream, set);
    const site = this.#site;
    if (site === undefined || site.closed || site.destroyed) return reset(stream);
    const names = set.map(([name]) => name);
    const never = new Set(names.map(sameName));
    for (const name of [...head.headers.keys()]) if (never.has(sameName(name))) head.headers.delete(name);
    for (const [name, value] of set) head.headers.set(name, [...(head.headers.get(name) ?? []), value]);
    const headers: OutgoingHttpHeaders & { [sensitiveHeaders]?: string[] } = Object.fromEntries(
      [...head.headers].map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
    );
    // The compression must not remember the values for other streams.
    headers[sensitiveHeaders] = names;
    const onward = site.request(headers, { endStream: hasEnded, waitForTrailers: !hasEnded });
    this.#join(stream, onward, never, hasEnded);
  }

  /** Forwards the body and the response. The reset of one stream resets the other. */
  #join(stream: ServerHttp2Stream, onward: ClientHttp2Stream, never: ReadonlySet<string>, hasEnded: boolean): void {
    const { client, site } = this.#ends;
    let requestTrailers: IncomingHttpHeaders | undefined;
    let responseTrailers: IncomingHttpHeaders | undefined;
    const fail = () => {
      reset(stream);
      reset(onward);
    };
    onward.on("error", () => undefined);
    stream.on("trailers", (headers) => {
      requestTrailers = headers;
    });
    onward.on("trailers", (headers) => {
      responseTrailers = headers;
    });
    const trailersWanted = guarded(() => sendTrailers(onward, requestTrailers, never), fail);
    onward.on("wantTrailers", trailersWanted);
    stream.on(
      "wantTrailers",
      guarded(() => sendTrailers(stream, responseTrailers, NO_NAMES), fail),
    );
    const interim = (headers: IncomingHttpHeaders) => {
      // HTTP/2 has no such response.
      if (Number(headers[":status"]) === SWITCHING_PROTOCOLS) return fail();
      if (!stream.headersSent && !stream.destroyed) stream.additionalHeaders(plain(headers));
    };
    onward.on("headers", guarded(interim, fail));
    const responseEnded = () => {
      if (stream.destroyed || stream.writableEnded) return;
      if (site.has(onward.id) && stream.headersSent) stream.end();
      else reset(stream);
    };
    const respond = (headers: IncomingHttpHeaders, flags: number) => {
      if (stream.destroyed) return;
      if (!isFinalStatus(headers[":status"])) {
        refuse(stream, [502, `${this.ruled.host} responded with a status that HTTP does not have`]);
        return reset(onward);
      }
      const isWhole = (flags & END_STREAM) !== 0;
      stream.respond(plain(headers), { endStream: isWhole, waitForTrailers: !isWhole, sendDate: false } as object);
      if (!isWhole) pass(onward, stream, guarded(responseEnded, fail), fail);
    };
    onward.on("response", guarded(respond, fail));
    const onwardClosed = () => {
      responseEnded();
      site.forget(onward.id);
    };
    onward.on("close", guarded(onwardClosed, fail));
    stream.on("close", () => {
      client.forget(stream.id);
      reset(onward);
    });
    if (hasEnded) return;
    const requestEnded = () => {
      if (client.has(stream.id)) onward.end();
      else reset(onward);
    };
    pass(stream, onward, guarded(requestEnded, fail), fail);
  }
}

/** An exception in a listener would end the whole process. */
function guarded<Args extends unknown[]>(listener: (...args: Args) => void, failed: () => void): typeof listener {
  return (...args) => {
    try {
      listener(...args);
    } catch {
      failed();
    }
  };
}

/** The module throws on others, also when a site sent them. */
function isFinalStatus(status: unknown): boolean {
  const number = Number(status);
  return Number.isInteger(number) && number >= 200 && number <= 599;
}

function pass(
  from: ServerHttp2Stream | ClientHttp2Stream,
  to: ServerHttp2Stream | ClientHttp2Stream,
  ended: () => void,
  failed: () => void,
): void {
  const read = (bytes: Buffer) => {
    if (to.destroyed || to.writableEnded || to.write(bytes)) return;
    from.pause();
    to.once(
      "drain",
      guarded(() => from.resume(), failed),
    );
  };
  from.on("data", guarded(read, failed));
  from.on("end", ended);
}

function sendTrailers(
  stream: ServerHttp2Stream | ClientHttp2Stream,
  trailers: IncomingHttpHeaders | undefined,
  never: ReadonlySet<string>,
): void {
  const kept = Object.entries(plain(trailers ?? {})).filter(([name]) => !never.has(sameName(name)));
  // Without trailers, this only ends the stream.
  stream.sendTrailers(Object.fromEntries(kept));
}

/** A copy without what the module keeps beside the headers. */
function plain(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers));
}

interface Http2RequestHead {
  method: string;
  authority: string;
  /** All headers, pseudo-headers first. */
  headers: Map<string, string[]>;
}

/** Undefined: malformed, or ambiguous about its host. `raw` holds names and values alternately. */
export function headOf(raw: readonly string[]): Http2RequestHead | undefined {
  const headers = new Map<string, string[]>();
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = "", value = ""] = [raw[at], raw[at + 1]];
    if (HTTP2_FORBIDDEN_HEADERS.has(name) || name !== name.toLowerCase()) return undefined;
    if (!isToken(name.startsWith(":") ? name.slice(1) : name)) return undefined;
    if (name.startsWith(":") && headers.has(name)) return undefined;
    headers.set(name, [...(headers.get(name) ?? []), value]);
  }
  const [method] = headers.get(":method") ?? [];
  const [path] = headers.get(":path") ?? [];
  const [scheme] = headers.get(":scheme") ?? [];
  const [authority] = headers.get(":authority") ?? [];
  const hosts = headers.get("host") ?? [];
  if (method === undefined || !isToken(method) || method.toUpperCase() === "CONNECT") return undefined;
  const isPath = path !== undefined && (PATH.test(path) || (path === "*" && method === "OPTIONS"));
  if (scheme !== "https" || !isPath) return undefined;
  const named = authority ?? hosts[0];
  if (named === undefined || hosts.length > 1 || (hosts[0] ?? named) !== named) return undefined;
  headers.delete("host");
  headers.set(":authority", [named]);
  return { method, authority: named, headers: new Map([...headers].sort(([a], [b]) => order(a) - order(b))) };
}

function order(name: string): number {
  return name.startsWith(":") ? 0 : 1;
}

function refuse(stream: ServerHttp2Stream, [status, why]: Refusal): void {
  stream.resume();
  stream.respond({ ":status": status, "content-type": "text/plain; charset=utf-8" });
  stream.end(`${why}\n`);
}

/** Not `close`: in Bun, that ends the body first, as if it were complete. The code is always INTERNAL_ERROR then. */
function reset(stream: ServerHttp2Stream | ClientHttp2Stream): void {
  if (!stream.destroyed) stream.destroy(new Error("the other end was reset"));
}
