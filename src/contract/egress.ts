/** What may leave a sandbox, as control tells the host. */

/**
 * What may leave a sandbox, from its first packet on. `open`: all but what is closed to every sandbox. `closed`: no
 * packet, and names do not resolve.
 */
export type Egress = "open" | "closed" | EgressPolicy;

/**
 * What is allowed passes although it is denied; what is neither passes. What is closed to every sandbox stays closed,
 * but for `privateRanges`.
 * All ranges are IPv4 with a prefix length, as `ipv4Range` writes them: all of IPv6 is closed.
 */
export interface EgressPolicy {
  allowRanges: readonly string[];
  /** As `DomainPatterns` takes them. They count for HTTP on port 80 and TLS on port 443. */
  allowNames: readonly string[];
  denyRanges: readonly string[];
  /** Every TCP connection that may leave goes through it, and nothing leaves but those. Null: none. */
  proxy: EgressProxy | null;
  /**
   * Private networks that the operator has opened to this sandbox, without what is never opened
   * (`private-networks.ts`): they are as the outside to it. Absent: none.
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
  /** Null: it asks for none. */
  credentials: { username: string; password: string } | null;
}
