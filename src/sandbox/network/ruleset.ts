/**
 * The nftables table of a server. Pure: facts in, text for `nft -f` out.
 *
 * The table closes everything that is not plainly the public internet. From the first packet on, a sandbox reaches
 * neither this machine, nor its neighbours, nor private networks; forged sources and IPv6 are dropped. Refused
 * connections get a reset or ICMP error at once, so that no program waits for a timeout. On this machine only root,
 * that is the server, and its edge reach a sandbox. The edge is the only entry for everyone else, and opens no other
 * connections. The server's own address, where the DNS relay listens, responds only to its sandboxes and to the machine
 * itself; without this rule the kernel would accept packets for it on any interface.
 */
import { CLOSED_RANGES, gatewayAddress, netAddress, SLOT_RANGE } from "../../contract/address-plan.ts";
import { Ipv4Ranges } from "../../contract/ip-range.ts";
import { edgeId } from "../../system/id-range.ts";
import {
  ANY_INTERFACE,
  fillChains,
  makeSets,
  mapOf,
  type SlotState,
  type TableFacts,
  verdictMaps,
} from "./slot-chains.ts";

/** Concurrent connections of one sandbox to the outside. The whole machine shares the kernel's connection table. */
export const CONNECTIONS_PER_SANDBOX_MAX = 8192;

const NET_PREFIX = 20;
/** DNS queries of one sandbox; more would crowd out those of its neighbours. */
const DNS_RATE = "200/second burst 200 packets";

interface RulesetFacts extends TableFacts {
  /** Prefix of the names of this server's interfaces. */
  interfacePrefix: string;
  slots: readonly SlotState[];
  /** Networks that this machine is directly connected to. */
  onLink: readonly string[];
  /** Until `admitAll`, only these addresses may send; undefined: all. */
  admitted: readonly string[] | undefined;
}

/** Replaces a table left by an earlier run in one transaction, so that the rules never lapse. */
export function ruleset(facts: RulesetFacts): string {
  const { table, net, interfacePrefix, slots, onLink, relay, admitted } = facts;
  const ours = `"${interfacePrefix}-*"`;
  const gateway = gatewayAddress(net);
  const counted = `add @connections { ip saddr ct count over ${CONNECTIONS_PER_SANDBOX_MAX} }`;
  const relayPorts = relay && portsOf(relay);
  return `
table inet ${table}
delete table inet ${table}
table inet ${table} {
  set closed { type ipv4_addr; flags interval; auto-merge; elements = { ${CLOSED_RANGES.join(", ")} } }
  set onlink { type ipv4_addr; flags interval; auto-merge; }
  set opened { type ipv4_addr; flags interval; auto-merge; }
  set connections { type ipv4_addr; size 65536; flags dynamic; }
  set asking { type ipv4_addr; size 65536; flags dynamic; timeout 10s; }
${verdictMaps()}

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
    iifname ${ours} jump lead
  }
  chain lead {
    udp dport 53 dnat ip to ${gateway}:53
    tcp dport 53 dnat ip to ${gateway}:53
    fib daddr type local return
    ip saddr vmap @${mapOf("near")}
    ip daddr @closed return
    ip daddr @onlink return
    ip saddr vmap @${mapOf("led")}
  }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmp type admin-prohibited
  }
  chain admit {
${admission(admitted)}  }
  chain here {
    type filter hook input priority filter; policy accept;
    iifname ${ours} jump to_machine
${relayPorts === undefined ? "" : `    ip daddr ${gateway} tcp dport ${relayPorts} jump refuse\n`}    iifname != "lo" ip daddr ${gateway} drop
  }
  chain to_machine {
    ct state established,related ct direction reply accept
    jump admit
    meta l4proto tcp ct state new ${counted} jump refuse
    udp dport 53 add @asking { ip saddr limit rate over ${DNS_RATE} } drop
    ip saddr vmap @${mapOf("here")}
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
    jump admit
    udp dport 53 jump refuse
    tcp dport 53 jump refuse
    ct state new ${counted} jump refuse
    ip saddr vmap @${mapOf("out")}
    ip daddr @closed jump refuse
    ip daddr @onlink jump refuse
    oifname "${ANY_INTERFACE}*" jump refuse
  }
  chain to_sandbox {
    ip daddr vmap @${mapOf("in")}
    ct original ip daddr @closed drop
    ct original ip daddr @onlink drop
    ct state established,related accept
    drop
  }
  chain from_machine {
    type filter hook output priority filter; policy accept;
${fromRelay(gateway, relay)}    meta skuid ${edgeId(net)} jump from_edge
    oifname ${ours} meta skuid != 0 drop
  }
  chain from_edge {
    oifname ${ours} accept
    meta l4proto != tcp jump refuse
    tcp flags & (fin | syn | rst | ack) == syn jump refuse
  }
  chain from_relay {
    oifname ${ours} ip daddr vmap @${mapOf("relay")}
    oifname ${ours} drop
    oifname "${ANY_INTERFACE}*" return
    oifname "lo" ip daddr ${SLOT_RANGE} udp dport 53 accept
    oifname "lo" ip daddr ${SLOT_RANGE} tcp dport 53 accept
    meta nfproto != ipv4 drop
    fib daddr type != unicast jump refuse
    ip daddr @opened accept
    ip daddr @closed jump refuse
    ip daddr @onlink jump refuse
  }
  chain leave {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${netAddress(net)}/${NET_PREFIX} oifname != ${ours} masquerade
  }
}
${fillOnLink(table, onLink)}${fill(table, "opened", openedSpans(slots))}${slots.map((slot) => makeSets(facts, slot) + fillChains(facts, slot)).join("")}`;
}

/**
 * The table outlives the server. Until the next server starts, any process could listen on the relay's ports. Its
 * replies to sandboxes are dropped, so no connection is established.
 */
function fromRelay(gateway: string, relay: RulesetFacts["relay"]): string {
  if (relay === undefined) return "";
  const ownPorts = `ip saddr ${gateway} tcp sport ${portsOf(relay)}`;
  return `    ${ownPorts} meta skuid != ${relay.uid} drop\n    meta skuid ${relay.uid} jump from_relay\n`;
}

function portsOf({ ports }: NonNullable<RulesetFacts["relay"]>): string {
  return `{ ${ports.http}, ${ports.tls}, ${ports.proxied} }`;
}

export function admitAll(table: string): string {
  return `flush chain inet ${table} admit\n`;
}

function admission(admitted: readonly string[] | undefined): string {
  if (admitted === undefined) return "";
  return admitted.length === 0 ? "    jump refuse\n" : `    ip saddr != { ${admitted.join(", ")} } jump refuse\n`;
}

export function replaceOnLink(table: string, onLink: readonly string[]): string {
  return `flush set inet ${table} onlink\n${fillOnLink(table, onLink)}`;
}

/** The union of private networks that are open to any of these slots; the shared relay must reach all of them. */
export function openedSpans(slots: readonly Pick<SlotState, "rules">[]): string[] {
  const ranges = slots.flatMap(({ rules: { egress } }) =>
    typeof egress === "object" ? (egress.privateRanges ?? []) : [],
  );
  // Deduplicated first, because most slots have the same ranges.
  return new Ipv4Ranges([...new Set(ranges)]).spans;
}

export function replaceOpened(table: string, spans: readonly string[]): string {
  return `flush set inet ${table} opened\n${fill(table, "opened", spans)}`;
}

function fillOnLink(table: string, onLink: readonly string[]): string {
  return fill(table, "onlink", onLink);
}

/** Written as a block: for an `add element` command, nft would first read all sets of the machine. */
function fill(table: string, set: string, spans: readonly string[]): string {
  if (spans.length === 0) return "";
  const elements = `elements = { ${spans.join(", ")} }`;
  return `table inet ${table} {\n  set ${set} { type ipv4_addr; flags interval; auto-merge; ${elements} }\n}\n`;
}
