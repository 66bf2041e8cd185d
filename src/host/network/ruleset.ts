/**
 * The nftables table of a server. Pure: facts in, text for `nft -f` out.
 *
 * The table closes everything that is not plainly the outside: from the first packet on, a sandbox reaches neither this
 * machine, nor its neighbours, nor private networks; forged sources and IPv6 are dropped. What is closed answers at
 * once that it is, so that no program waits for a time-out. On this machine only root, that is the server, reaches a
 * sandbox: the edge is the one door for everybody else. The server's own address, where the DNS relay listens, answers
 * its sandboxes and the machine itself alone: the kernel would take packets for it on any interface.
 */

import { CONNECTIONS_PER_SANDBOX_MAX } from "../limits.ts";
import { CLOSED_RANGES, gatewayAddress, NAMESERVER_ADDRESS, netAddress } from "./address-plan.ts";

const NET_PREFIX = 20;
/** Begins the name of every sandbox's interface, on whichever server. */
export const ANY_INTERFACE = "slot";
/** Of one sandbox: more would crowd out the questions of its neighbours. */
const DNS_RATE = "200/second burst 200 packets";

interface RulesetFacts {
  table: string;
  net: number;
  /** Begins the names of this server's interfaces. */
  interfacePrefix: string;
  /** Addresses of sandboxes that are cut off. */
  offline: readonly string[];
  /** Networks that this machine is directly on. */
  onLink: readonly string[];
}

/** Replaces a table left by an earlier run in one step, so there is never a moment without. */
export function ruleset({ table, net, interfacePrefix, offline, onLink }: RulesetFacts): string {
  const ours = `"${interfacePrefix}-*"`;
  const dns = `ip daddr ${NAMESERVER_ADDRESS}`;
  const gateway = gatewayAddress(net);
  return `
table inet ${table}
delete table inet ${table}
table inet ${table} {
  set closed { type ipv4_addr; flags interval; auto-merge; elements = { ${CLOSED_RANGES.join(", ")} } }
  set onlink { type ipv4_addr; flags interval; auto-merge; }
  set offline { type ipv4_addr; }
  set granted { type ipv4_addr . ipv4_addr . inet_service; }
  set connections { type ipv4_addr; size 65536; flags dynamic; }
  set asking { type ipv4_addr; size 65536; flags dynamic; timeout 10s; }

  chain arrive {
    type filter hook prerouting priority raw; policy accept;
    iifname ${ours} jump from_sandbox
  }
  chain from_sandbox {
    meta nfproto != ipv4 drop
    fib saddr . iif oif missing drop
  }
  chain names {
    type nat hook prerouting priority dstnat; policy accept;
    iifname ${ours} ${dns} udp dport 53 dnat ip to ${gateway}:53
    iifname ${ours} ${dns} tcp dport 53 dnat ip to ${gateway}:53
  }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmp type admin-prohibited
  }
  chain here {
    type filter hook input priority filter; policy accept;
    iifname ${ours} jump to_machine
    iifname != "lo" ip daddr ${gateway} drop
  }
  chain to_machine {
    ct state established,related accept
    ip saddr @offline jump refuse
    ip saddr . ip daddr . tcp dport @granted accept
    udp dport 53 add @asking { ip saddr limit rate over ${DNS_RATE} } drop
    ip daddr ${gateway} udp dport 53 accept
    ip daddr ${gateway} tcp dport 53 accept
    jump refuse
  }
  chain through {
    type filter hook forward priority filter; policy accept;
    iifname ${ours} jump to_outside
    oifname ${ours} jump to_sandbox
  }
  chain to_outside {
    ip saddr @offline jump refuse
    ct state new add @connections { ip saddr ct count over ${CONNECTIONS_PER_SANDBOX_MAX} } jump refuse
    oifname != "${ANY_INTERFACE}*" ip saddr . ip daddr . tcp dport @granted accept
    ip daddr @closed jump refuse
    ip daddr @onlink jump refuse
    oifname "${ANY_INTERFACE}*" jump refuse
  }
  chain to_sandbox {
    ct state established,related accept
    drop
  }
  chain from_machine {
    type filter hook output priority filter; policy accept;
    oifname ${ours} meta skuid != 0 drop
  }
  chain leave {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${netAddress(net)}/${NET_PREFIX} oifname != ${ours} masquerade
  }
}
${add(table, "onlink", onLink)}${add(table, "offline", offline)}`;
}

export function replaceOnLink(table: string, onLink: readonly string[]): string {
  return `flush set inet ${table} onlink\n${add(table, "onlink", onLink)}`;
}

export function cutOff(table: string, address: string): string {
  return add(table, "offline", [address]);
}

export function reconnect(table: string, address: string): string {
  return `delete element inet ${table} offline { ${address} }\n`;
}

/** A sandbox reaches these although they are closed to all others. */
export function grant(table: string, address: string, ways: readonly { address: string; port: number }[]): string {
  return add(
    table,
    "granted",
    ways.map((way) => `${address} . ${way.address} . ${way.port}`),
  );
}

export function withdraw(table: string, address: string, ways: readonly { address: string; port: number }[]): string {
  return grant(table, address, ways).replace(/^add/, "delete");
}

/** Each once: what is named twice can be added so, but not be deleted. */
function add(table: string, set: string, elements: readonly string[]): string {
  return elements.length === 0 ? "" : `add element inet ${table} ${set} { ${[...new Set(elements)].join(", ")} }\n`;
}
