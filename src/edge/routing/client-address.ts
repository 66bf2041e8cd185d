/**
 * The client's address: the peer of the connection, unless that is a proxy which the operator trusts. Such a proxy is
 * trusted about its own peer only, so the forwarding chain is read from its right end, and the first address that is
 * not a trusted proxy's is the client. In any doubt the peer counts.
 */
import { BlockList, isIP, isIPv4 } from "node:net";
import { ipv4Range, isIpv6Range } from "../../contract/ip-range.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";

/** Maximum proxies that are read, from the nearest on. */
const EDGE_FORWARDED_HOPS_MAX = 32;

export class TrustedProxies {
  readonly #ranges = new BlockList();
  readonly #any: boolean;

  /** Addresses and ranges of both families. Other text is ignored. */
  constructor(ranges: readonly string[]) {
    this.#any = ranges.length > 0;
    for (const range of ranges) {
      const [address = "", prefix] = (ipv4Range(range) ?? (isIpv6Range(range) ? range : "")).split("/");
      if (address === "") continue;
      const family = isIPv4(address) ? "ipv4" : "ipv6";
      this.#ranges.addSubnet(address, Number(prefix ?? (family === "ipv4" ? 32 : 128)), family);
    }
  }

  has(address: string): boolean {
    return this.#any && this.#ranges.check(address, isIPv4(address) ? "ipv4" : "ipv6");
  }
}

export const NO_PROXIES = new TrustedProxies([]);

/** Whether the other end of the connection is a trusted proxy. */
export function isFromProxy(peer: string, trusted: TrustedProxies): boolean {
  return trusted.has(plain(peer));
}

/** `peer` is the other end of the connection. */
export function clientAddress(peer: string, headers: ReadHeaders, trusted: TrustedProxies): string {
  const own = plain(peer);
  if (!isFromProxy(own, trusted)) return own;
  const clients = [xForwardedFor(headers), forwarded(headers)].flatMap((chain) =>
    chain === undefined ? [] : [nearestUntrusted(chain, trusted)],
  );
  const [client] = clients;
  // A proxy writes one of the two headers and forwards the client's in the other: if they differ, one is forged.
  if (client === undefined || clients.some((other) => other !== client)) return own;
  return client;
}

/** Undefined when a hop is not an address. The chain is in header order: the nearest hop last. */
function nearestUntrusted(chain: readonly string[], trusted: TrustedProxies): string | undefined {
  let address: string | undefined;
  for (const hop of chain.slice(-EDGE_FORWARDED_HOPS_MAX).reverse()) {
    address = addressIn(hop);
    if (address === undefined || !trusted.has(address)) return address;
  }
  return address;
}

function xForwardedFor(headers: ReadHeaders): string[] | undefined {
  return headers.get("x-forwarded-for")?.split(",");
}

/** One pair of an element of Forwarded (RFC 7239), and the separator after it. */
const PAIR = /[ \t]*([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w-]+)|"((?:[^"\\]|\\.)*)")[ \t]*([;,]|$)/y;

/**
 * The `for` of each element; empty for an element without one. Parsed strictly: with an unclosed quote, a client could
 * hide what the proxy has written after it.
 */
function forwarded(headers: ReadHeaders): string[] | undefined {
  const text = headers.get("forwarded");
  if (text === null) return undefined;
  const hops = [""];
  PAIR.lastIndex = 0;
  for (;;) {
    const [, name, token, quoted, next] = PAIR.exec(text) ?? MALFORMED;
    if (next === undefined) return [""];
    if (name?.toLowerCase() === "for") {
      // A second `for` is malformed, and it is unclear which one the proxy wrote.
      if (hops.at(-1) !== "") return [""];
      hops[hops.length - 1] = token ?? quoted ?? "";
    }
    if (next === "") return hops;
    if (next === ",") hops.push("");
  }
}

const MALFORMED: readonly undefined[] = [];

/**
 * `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. Names and obfuscated ids do not count.
 */
function addressIn(hop: string): string | undefined {
  const text = hop.trim();
  const bare = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(bare) === 0 || bare.includes("%") ? undefined : plain(bare);
}

/** On a dual-stack listener an IPv4 client has an IPv4-mapped address. */
function plain(address: string): string {
  const lower = address.toLowerCase();
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(lower)?.[1] ?? lower;
}
