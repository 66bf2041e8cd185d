/**
 * Whose request it is: the peer of the connection, unless that is a proxy which the operator trusts. Such a proxy is
 * believed about its own peer, and about nothing that came to it from there: so the chain that it sends is read from
 * its right end, and the first address that is not a trusted proxy's own is the client. Whatever leaves a doubt is
 * answered with the peer.
 */
import { BlockList, isIP, isIPv4 } from "node:net";
import { ipv4Range, isIpv6Range } from "../../contract/ip-range.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";

/** Proxies before us that are looked at, from the nearest on. */
const EDGE_FORWARDED_HOPS_MAX = 32;

export class TrustedProxies {
  readonly #ranges = new BlockList();
  readonly #any: boolean;

  /** Addresses and ranges, of either family. What is neither is not trusted. */
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

/** Whether the other end of the connection is a proxy that is believed. */
export function isFromProxy(peer: string, trusted: TrustedProxies): boolean {
  return trusted.has(plain(peer));
}

/** `peer` is the other end of the connection. */
export function clientAddress(peer: string, headers: ReadHeaders, trusted: TrustedProxies): string {
  const own = plain(peer);
  if (!isFromProxy(own, trusted)) return own;
  const said = [xForwardedFor(headers), forwarded(headers)].flatMap((chain) =>
    chain === undefined ? [] : [nearestUntrusted(chain, trusted)],
  );
  const [client] = said;
  // A proxy writes one of the two and passes on what the client wrote in the other: where they differ, one is forged.
  if (client === undefined || said.some((other) => other !== client)) return own;
  return client;
}

/** Undefined when somebody on the way is not named by an address. The chain is as it is sent: the nearest hop last. */
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

/** One pair of an element of Forwarded (RFC 7239), and what stands behind it. */
const PAIR = /[ \t]*([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w-]+)|"((?:[^"\\]|\\.)*)")[ \t]*([;,]|$)/y;

/**
 * The `for` of each element; an empty one stands for an element without. Read strictly: with a quote that it does not
 * close, a client could hide what the proxy has written behind it.
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
      // Twice is malformed, and which one the proxy wrote cannot be told.
      if (hops.at(-1) !== "") return [""];
      hops[hops.length - 1] = token ?? quoted ?? "";
    }
    if (next === "") return hops;
    if (next === ",") hops.push("");
  }
}

const MALFORMED: readonly undefined[] = [];

/** `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. Names and hidden ones are none. */
function addressIn(hop: string): string | undefined {
  const text = hop.trim();
  const bare = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(bare) === 0 || bare.includes("%") ? undefined : plain(bare);
}

/** An IPv4 client of a listener for both families has an address that only wraps its own. */
function plain(address: string): string {
  const lower = address.toLowerCase();
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(lower)?.[1] ?? lower;
}
