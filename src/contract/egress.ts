/** Egress rules of a sandbox, as control passes them to the host. */

/**
 * Rules for outgoing traffic from the first packet on. `open`: everything except what is closed to every sandbox.
 * `closed`: no packet leaves, and names do not resolve.
 */
export type Egress = "open" | "closed" | EgressPolicy;

/**
 * Allow entries override deny entries; traffic that matches neither passes. Addresses closed to every sandbox stay
 * closed, except `privateRanges`. All ranges are IPv4 with a prefix length, as `ipv4Range` writes them: all of IPv6 is
 * closed.
 */
export interface EgressPolicy {
  allowRanges: readonly string[];
  /** Patterns for `DomainPatterns`. They apply to HTTP on port 80 and TLS on port 443. */
  allowNames: readonly string[];
  denyRanges: readonly string[];
  /** Every allowed TCP connection goes through this proxy, and no other traffic leaves. Null: no proxy. */
  proxy: EgressProxy | null;
  /**
   * Private networks that the operator has opened to this sandbox, without addresses that are never opened
   * (`private-networks.ts`). The rules apply to them as to the internet. Absent: none.
   */
  privateRanges?: readonly string[];
}

export interface LookedUp {
  address: string;
  isClosed: boolean;
}

/** A SOCKS5 server. */
interface EgressProxy {
  /** A name or an IPv4 address. */
  host: string;
  port: number;
  /** Null: the proxy requires none. */
  credentials: { username: string; password: string } | null;
}
