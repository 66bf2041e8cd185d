/**
 * The nftables rules of one sandbox. Pure: rules in, text for `nft -f` out.
 *
 * A slot that was ever anything but open has six chains, one for each path of a packet, and verdict maps lead from its
 * address to them. The chains are empty while the slot is open. One transaction refills all chains for a change, and
 * the kernel evaluates all chains of a hook in one generation: each packet meets either the old or the new rules,
 * complete.
 *
 * Ranges are in sets, created by an earlier transaction and removed by a later one. Kernels differ in when the content
 * of a new set becomes visible, and a denied range must never look empty.
 *
 * Everything is written as blocks: for every element that a separate command adds or deletes, nft first reads all
 * elements of all sets of the machine.
 */
import { gatewayAddress, SLOT_RANGE, slotAddress } from "../../contract/address-plan.ts";
import type { Egress, EgressPolicy } from "../../contract/internal/host.ts";
import { Ipv4Ranges } from "../../contract/ip-range.ts";

/** Prefix of the interface names of all sandboxes of all servers. */
export const ANY_INTERFACE = "slot";

export interface OpenAddress {
  address: string;
  port: number;
}

export interface SlotRules {
  egress: Egress;
  /** Addresses open to this slot although closed to all others; only while egress is open. */
  openAddresses: readonly OpenAddress[];
}

export const OPEN: SlotRules = { egress: "open", openAddresses: [] };

/** The connection relay, on the server's own address. */
interface RelayFacts {
  uid: number;
  ports: { http: number; tls: number; proxied: number };
}

export interface TableFacts {
  table: string;
  net: number;
  /** Undefined: there is no relay, and what only it could decide stays closed. */
  relay: RelayFacts | undefined;
}

export interface SlotState {
  slot: number;
  rules: SlotRules;
  /** Part of the names of the slot's sets; the next rules have another version. */
  version: number;
}

/**
 * Paths of packets. `out`: to the outside. `in`: from there. `near`: whether a new connection to a private network is
 * redirected like one to the outside. `led`: where it is redirected. `here`: to this machine. `relay`: from the relay.
 */
const PATHS = ["out", "in", "near", "led", "here", "relay"] as const;
type Chains = Record<(typeof PATHS)[number], string[]>;

export function verdictMaps(): string {
  return PATHS.map((way) => `  map ${mapOf(way)} { type ipv4_addr : verdict; }`).join("\n");
}

export function mapOf(way: (typeof PATHS)[number]): string {
  return `slots_${way}`;
}

/** Creates the sets that the slot's chains refer to; empty if there are none. */
export function makeSets({ table }: TableFacts, state: SlotState): string {
  const sets = setsOf(state).map(([name, ranges]) => set(name, ranges));
  return sets.length === 0 ? "" : block(table, sets);
}

/** Fills the chains of a slot, for the first time or again. */
export function fillChains(facts: TableFacts, state: SlotState): string {
  const { table, net } = facts;
  const { slot } = state;
  const chains = chainsOf(facts, state);
  const address = slotAddress(net, slot);
  const flush = PATHS.map((way) => `flush chain inet ${table} ${chainOf(slot, way)}\n`).join("");
  const empty = PATHS.map((way) => `chain ${chainOf(slot, way)} { }`);
  const filled = PATHS.flatMap((way) => {
    const elements = `elements = { ${address} : jump ${chainOf(slot, way)} }`;
    return [
      `chain ${chainOf(slot, way)} {\n${chains[way].map((rule) => `    ${rule}\n`).join("")}  }`,
      `map ${mapOf(way)} { type ipv4_addr : verdict; ${elements} }`,
    ];
  });
  return block(table, empty) + flush + block(table, filled);
}

/** Removes the sets that `makeSets` made or would have made. */
export function removeSets({ table }: TableFacts, states: readonly SlotState[]): string {
  const names = states.flatMap((state) => setsOf(state).map(([name]) => name));
  if (names.length === 0) return "";
  // Create them first: after a failure it is unknown whether they exist, and nft cannot delete a missing set.
  const made = block(
    table,
    names.map((name) => set(name, undefined)),
  );
  return made + names.map((name) => `delete set inet ${table} ${name}\n`).join("");
}

/** Whether the relay has to decide about connections under these rules. */
export function needsRelay(egress: Egress): egress is EgressPolicy {
  if (typeof egress !== "object") return false;
  return egress.proxy !== null || egress.allowNames.length > 0 || hasRules(egress);
}

function hasRules({ ruleNames }: EgressPolicy): boolean {
  return ruleNames !== undefined && ruleNames.length > 0;
}

/** Accepts replies from private networks, which the table would otherwise drop. */
const COMES_BACK = "ct state established,related accept";

function chainsOf({ net, relay }: TableFacts, state: SlotState): Chains {
  const { egress, openAddresses } = state.rules;
  const chains: Chains = { out: [], in: [], near: [], led: [], here: [], relay: [] };
  if (egress === "open") {
    for (const { address, port } of openAddresses) {
      chains.out.push(`oifname != "${ANY_INTERFACE}*" ip daddr ${address} tcp dport ${port} accept`);
      chains.in.push(`ct original ip daddr ${address} ${COMES_BACK}`);
      chains.here.push(`ip daddr ${address} tcp dport ${port} accept`);
    }
    return chains;
  }
  // DNS queries still reach the DNS relay, which refuses each of them. The kernel's own refusal (ICMP) is rate-limited,
  // and a program would wait five seconds for a missing one.
  if (egress === "closed") return { ...chains, out: ["jump refuse"], in: ["drop"] };
  const { allow, deny, near } = matchesOf(state, egress);
  if (egress.proxy === null) {
    const [out, back] = [intoPrivate(near), fromPrivate(near)];
    // Matches the original destination, so that ICMP errors from routers on an allowed path are accepted.
    if (allow !== undefined) {
      chains.out.push(
        ...out.map((rule) => `${spaced("ip daddr", allow)}${rule}`),
        `${spaced("ip daddr", allow)}return`,
      );
      const original = spaced("ct original ip daddr", allow);
      chains.in.push(...back.map((rule) => `${original}${rule}`), `${original}return`);
    }
    if (deny !== undefined) chains.out.push(`${spaced("ip daddr", deny)}jump refuse`);
    if (deny !== undefined) chains.in.push(`${spaced("ct original ip daddr", deny)}drop`);
    chains.out.push(...out);
    chains.in.push(...back);
  } else {
    chains.out.push("jump refuse");
    chains.in.push("drop");
  }
  if (relay === undefined || !needsRelay(egress)) return chains;
  const gateway = gatewayAddress(net);
  const { http, tls, proxied } = relay.ports;
  const lead = (match: string, port: number) => `${match} dnat ip to ${gateway}:${port}`;
  const rest = egress.proxy === null ? "return" : lead("meta l4proto tcp", proxied);
  const named = (match: string) => [
    lead(`${spaced("ip daddr", match)}tcp dport 80`, http),
    lead(`${spaced("ip daddr", match)}tcp dport 443`, tls),
  ];
  // With header rules, the relay reads the names of all connections. Through a proxy it gets them all in any case.
  const readAll = hasRules(egress) && egress.proxy === null ? named : () => [];
  if (allow !== undefined) chains.led.push(...readAll(allow), `${spaced("ip daddr", allow)}${rest}`);
  if (deny !== undefined) {
    if (egress.allowNames.length > 0) chains.led.push(...named(deny));
    chains.led.push(`${spaced("ip daddr", deny)}return`);
  }
  chains.led.push(...readAll(""));
  if (egress.proxy !== null) chains.led.push(rest);
  if (near !== undefined) chains.near.push(`${spaced("ip daddr", near)}jump ${chainOf(state.slot, "led")}`);
  chains.here.push(`ct status dnat ip daddr ${gateway} tcp dport { ${http}, ${tls}, ${proxied} } accept`);
  chains.relay.push("ct direction reply ct status dnat accept");
  return chains;
}

/** The table would reject it after this chain. Never to another sandbox, whatever the ranges say. */
function intoPrivate(near: string | undefined): string[] {
  if (near === undefined) return [];
  return [`${spaced("ip daddr", near)}ip daddr != ${SLOT_RANGE} oifname != "${ANY_INTERFACE}*" accept`];
}

function fromPrivate(near: string | undefined): string[] {
  return near === undefined ? [] : [`${spaced("ct original ip daddr", near)}${COMES_BACK}`];
}

interface Matches {
  allow: string | undefined;
  deny: string | undefined;
  /** Open private networks. */
  near: string | undefined;
}

/** Each is `@set`, an empty string for every address, or undefined for none. */
function matchesOf(state: SlotState, policy: EgressPolicy): Matches {
  const match = (ranges: readonly string[], name: string) => {
    if (ranges.length === 0) return undefined;
    return new Ipv4Ranges(ranges).isAll ? "" : `@${name}`;
  };
  return {
    allow: match(policy.allowRanges, setOf(state, "allow")),
    deny: match(policy.denyRanges, setOf(state, "deny")),
    near: match(policy.privateRanges ?? [], setOf(state, "near")),
  };
}

function spaced(field: string, match: string): string {
  return match === "" ? "" : `${field} ${match} `;
}

function setsOf(state: SlotState): [name: string, ranges: Ipv4Ranges][] {
  const { egress } = state.rules;
  if (typeof egress !== "object") return [];
  const all = [
    [setOf(state, "allow"), egress.allowRanges],
    [setOf(state, "deny"), egress.denyRanges],
    [setOf(state, "near"), egress.privateRanges ?? []],
  ] as const;
  return all.flatMap(([name, texts]) => {
    const ranges = new Ipv4Ranges(texts);
    return texts.length === 0 || ranges.isAll ? [] : [[name, ranges] as [string, Ipv4Ranges]];
  });
}

function setOf({ slot, version }: SlotState, list: "allow" | "deny" | "near"): string {
  return `slot_${slot}_${list}_${version}`;
}

function chainOf(slot: number, way: string): string {
  return `slot_${slot}_${way}`;
}

function set(name: string, ranges: Ipv4Ranges | undefined): string {
  const elements = ranges === undefined ? "" : ` elements = { ${ranges.spans.join(", ")} }`;
  return `set ${name} { type ipv4_addr; flags interval;${elements} }`;
}

function block(table: string, parts: readonly string[]): string {
  return `table inet ${table} {\n${parts.map((part) => `  ${part}\n`).join("")}}\n`;
}
