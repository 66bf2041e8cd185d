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
  /**
   * Patterns of names with header rules. For TLS to such a name on port 443 the relay terminates TLS and asks for the
   * headers of each request (`rule-requested`). A rule grants no access by itself. Absent: none.
   */
  ruleNames?: readonly string[];
}

/** Headers that the relay sets on a request to a name with a rule. */
export type RuleAnswer =
  | { headers: readonly (readonly [name: string, value: string])[] }
  /** The response is a 502 with this text, which names the rule and never a value. */
  | { failure: string };

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
