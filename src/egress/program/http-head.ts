/**
 * Finds the host of a request, and refuses requests that servers could read differently. The relay forwards requests
 * unchanged, so the server must not see another host than the one that was checked. `src/http1` has rejected all heads
 * that can be read in two ways.
 */
import type { HeaderLines } from "../../http1/header-lines.ts";
import type { RequestHead } from "../../http1/request-head.ts";

export interface HttpRequest {
  method: string;
  /** As the client wrote it, without a port. */
  host: string;
  /** Length of the body; undefined: it is chunked. */
  bodyBytes: number | undefined;
  upgrade: boolean;
}

const AUTHORITY = /^([^:@/?#[\]]+)(?::(\d{0,5}))?$/;
const DEFAULT_PORTS = { http: "80", https: "443" };
type Scheme = keyof typeof DEFAULT_PORTS;
/** Protocols that carry requests for any host, out of the relay's sight. */
const MANY_HOSTS = /^(?:h2c?|http\/2.*|http)$/;

/** `scheme`: of the connection. */
export function requestOf(
  { method, target, headers, bodyBytes }: RequestHead,
  scheme: Scheme,
): HttpRequest | { refused: string } {
  if (method.toUpperCase() === "CONNECT") return { refused: "CONNECT is not possible here" };
  const host = hostOf(headers, method, target, scheme);
  if (typeof host !== "string") return host;
  // A server behind the first would not see it.
  if (listed(headers, "connection").includes("host")) return { refused: "its Host is for the next server only" };
  const upgrades = listed(headers, "upgrade");
  const upgrade = upgrades.length > 0 && !upgrades.some((protocol) => MANY_HOSTS.test(protocol));
  return { method, host, bodyBytes, upgrade };
}

function hostOf(headers: HeaderLines, method: string, target: string, scheme: Scheme): string | { refused: string } {
  const host = headers.get("host");
  if (host === null) return { refused: "it must have exactly one Host" };
  const authority = AUTHORITY.exec(host);
  const name = authority?.[1];
  if (name === undefined) return { refused: "its Host is not a host name" };
  if (target.startsWith("/") || (target === "*" && method === "OPTIONS")) return name;
  const absolute = /^(https?):\/\/([^/?#]*)/i.exec(target);
  if (absolute?.[1]?.toLowerCase() !== scheme)
    return { refused: "what it asks for is neither a path nor an address of HTTP" };
  const other = AUTHORITY.exec(absolute[2] ?? "");
  const portOf = (text: string | undefined) => text || DEFAULT_PORTS[scheme];
  const agrees = other?.[1]?.toLowerCase() === name.toLowerCase() && portOf(other?.[2]) === portOf(authority?.[2]);
  return agrees ? name : { refused: "it names two hosts, one in its first line and one as Host" };
}

/** The members of a list that may be spread over several headers. */
export function listed(headers: HeaderLines, name: string): string[] {
  const value = headers.get(name);
  return value === null ? [] : value.split(",").map((member) => member.trim().toLowerCase());
}
