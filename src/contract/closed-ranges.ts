/**
 * Address ranges that are not public: closed to sandboxes by the firewall, and to webhooks. The machine's own networks
 * are closed in addition. docs/security.md has the same list.
 */
interface ClosedRange {
  range: string;
  why: string;
  /** Whether an operator can open it to sandboxes (private-networks.ts). Absent: yes, as a whole or in part. */
  opens?: "never" | "by address";
}

export const CLOSED_IPV4: readonly ClosedRange[] = [
  { range: "0.0.0.0/8", why: "this host", opens: "never" },
  { range: "10.0.0.0/8", why: "private" },
  { range: "100.64.0.0/10", why: "shared by carriers; metadata of some clouds" },
  { range: "127.0.0.0/8", why: "loopback", opens: "never" },
  { range: "168.63.129.16/32", why: "metadata and name server of Azure", opens: "by address" },
  { range: "169.254.0.0/16", why: "link-local; metadata of most clouds", opens: "by address" },
  { range: "172.16.0.0/12", why: "private" },
  { range: "192.0.0.0/24", why: "protocol assignments" },
  { range: "192.88.99.0/24", why: "6to4 relays" },
  { range: "192.168.0.0/16", why: "private" },
  { range: "198.18.0.0/15", why: "benchmarks; the sandboxes themselves", opens: "never" },
  { range: "224.0.0.0/4", why: "multicast", opens: "never" },
  { range: "240.0.0.0/4", why: "reserved, and broadcast", opens: "never" },
];

/**
 * For webhooks; to sandboxes all of IPv6 is closed. An IPv4-mapped address (`::ffff:0:0/96`) counts as its IPv4
 * address.
 */
export const CLOSED_IPV6: readonly ClosedRange[] = [
  { range: "::/128", why: "unspecified" },
  { range: "::1/128", why: "loopback" },
  { range: "::/96", why: "IPv4-compatible: an IPv4 address within" },
  { range: "::ffff:0:0:0/96", why: "IPv4-translated: an IPv4 address within" },
  { range: "64:ff9b::/96", why: "NAT64: an IPv4 address within" },
  { range: "64:ff9b:1::/48", why: "local NAT64: an IPv4 address within" },
  { range: "100::/64", why: "discard" },
  { range: "2001::/32", why: "Teredo: an IPv4 address within" },
  { range: "2002::/16", why: "6to4: an IPv4 address within" },
  { range: "fc00::/7", why: "private" },
  { range: "fe80::/10", why: "link-local" },
  { range: "fec0::/10", why: "site-local" },
  { range: "ff00::/8", why: "multicast" },
];
