/**
 * What a request asks for and of whom, and what a response says. Requests are read strictly: the server must not see
 * another host, or another end of the body, than is judged here. Of a response only the end has to be known.
 */
import { type Framing, framingOf, type Head, headOf, listed, NO_BODY } from "./head-fields.ts";

export interface HttpRequest {
  method: string;
  /** As the client has written it, without a port. */
  host: string;
  framing: Framing;
  /** It would like to speak something else over this connection. */
  upgrade: boolean;
}

interface HttpResponse {
  status: number;
  framing: Framing;
}

const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([^ \t]+) HTTP\/1\.([01])$/;
const STATUS_LINE = /^HTTP\/1\.[01] ([1-5]\d\d)(?: .*)?$/;
const AUTHORITY = /^([^:@/?#[\]]+)(?::(\d{0,5}))?$/;
const DEFAULT_PORT = "80";
/** Over it any host could be asked for, and nobody could tell. */
const MANY_HOSTS = /^(?:h2c?|http\/2.*|http)$/;

export function requestOf(bytes: Buffer): HttpRequest | { refused: string } {
  const head = headOf(bytes);
  if (head === undefined) return { refused: "a line of its head is not well-formed" };
  const line = REQUEST_LINE.exec(head.first);
  if (line === null) return { refused: "it does not begin with a request of HTTP/1.0 or HTTP/1.1" };
  const [, method = "", target = "", minor] = line;
  if (method === "CONNECT") return { refused: "CONNECT is not possible here" };
  const host = hostOf(head, method, target);
  if (typeof host !== "string") return host;
  const framing = framingOf(head);
  if (framing === undefined) return { refused: "the length of its body can be read in two ways" };
  if (framing?.kind === "chunked" && minor === "0") return { refused: "HTTP/1.0 has no chunked bodies" };
  // A server behind the first would not see it.
  if (listed(head, "connection").includes("host")) return { refused: "its Host is for the next server only" };
  const upgrades = listed(head, "upgrade");
  return {
    method,
    host,
    framing: framing ?? NO_BODY,
    upgrade: upgrades.length > 0 && !upgrades.some((protocol) => MANY_HOSTS.test(protocol)),
  };
}

function hostOf(head: Head, method: string, target: string): string | { refused: string } {
  const hosts = head.fields.get("host");
  const [host] = hosts ?? [];
  if (hosts?.length !== 1 || host === undefined) return { refused: "it must have exactly one Host" };
  const authority = AUTHORITY.exec(host);
  const name = authority?.[1];
  if (name === undefined) return { refused: "its Host is no name of a host" };
  if (target.startsWith("/") || (target === "*" && method === "OPTIONS")) return name;
  const absolute = /^http:\/\/([^/?#]*)/i.exec(target);
  if (absolute === null) return { refused: "what it asks for is neither a path nor an address of HTTP" };
  const other = AUTHORITY.exec(absolute[1] ?? "");
  const agrees = other?.[1]?.toLowerCase() === name.toLowerCase() && portOf(other?.[2]) === portOf(authority?.[2]);
  return agrees ? name : { refused: "it names two hosts, one in its first line and one as Host" };
}

function portOf(text: string | undefined): string {
  return text === undefined || text === "" ? DEFAULT_PORT : text;
}

/** Undefined: nobody knows where it ends before the connection does. */
export function responseOf(bytes: Buffer, method: string): HttpResponse | undefined {
  const head = headOf(bytes);
  const status = Number(STATUS_LINE.exec(head?.first ?? "")?.[1]);
  if (head === undefined || Number.isNaN(status)) return undefined;
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return { status, framing: NO_BODY };
  return { status, framing: framingOf(head) ?? { kind: "close" } };
}
