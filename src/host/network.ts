/**
 * Network of sandboxes: a slot for each, one nftables table for all.
 *
 * A slot is an address and a veth pair. One end is born inside the sandbox's network namespace as eth0, before its first
 * process runs, and dies with it. The table closes everything that is not plainly the outside: from the first packet on, a
 * sandbox reaches neither this machine, nor its neighbours, nor private networks; forged sources and IPv6 are dropped. What is
 * closed answers at once that it is, so that no program waits for a time-out. On this machine only root, that is the server, reaches a sandbox: the edge is the one door for everybody else.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { attempt, run } from "./command.ts";
import type { DataFolder } from "./data-folder.ts";
import {
  CLOSED_RANGES,
  GATEWAY_MAC,
  gatewayAddress,
  NAMESERVER_ADDRESS,
  netAddress,
  SANDBOX_ADDRESS,
  SANDBOX_MAC,
  SLOT_FIRST,
  SLOT_LAST,
  slotAddress,
} from "./network-plan.ts";
import { defaultRouteDevice, onLinkRanges } from "./on-link.ts";

const NET_PREFIX = 20;
/** Begins the name of every sandbox's interface, on whichever server. */
const ANY_INTERFACE = "slot";
const ON_LINK_REFRESH_MS = 5_000;
const MTU_DEFAULT = 1500;
/** Of one sandbox to the outside, at once: the kernel's table of them is shared by the whole machine. */
const CONNECTIONS_MAX = 8192;
/** Of one sandbox: more would crowd out the questions of its neighbours. */
const DNS_RATE = "200/second burst 200 packets";

export class Network {
  readonly net: number;
  readonly table: string;
  readonly #interfacePrefix: string;
  readonly #taken = new Set<number>();
  readonly #offline = new Set<number>();
  #next = SLOT_FIRST;
  #onLink = "";
  #mtu = MTU_DEFAULT;
  #refresh: Timer | undefined;

  constructor(data: DataFolder) {
    this.net = data.net();
    this.table = `sandlot_${data.tag}`;
    this.#interfacePrefix = `${ANY_INTERFACE}${data.tag}`;
  }

  get gateway(): string {
    return gatewayAddress(this.net);
  }

  address(slot: number): string {
    return slotAddress(this.net, slot);
  }

  /** Puts the rules in place; a table left by an earlier run is replaced in one step, so there is never a moment without. */
  async open(): Promise<void> {
    await attempt(["ip", "address", "add", `${this.gateway}/32`, "dev", "lo"]);
    this.#onLink = this.#onLinkElements();
    this.#mtu = await uplinkMtu();
    await this.#nft(this.#ruleset());
    this.#refresh = setInterval(() => this.#refreshOnLink(), ON_LINK_REFRESH_MS);
    this.#refresh.unref();
  }

  close(): void {
    clearInterval(this.#refresh);
  }

  /** Takes away all that `open` and `plug` made on this machine. */
  async remove(): Promise<void> {
    this.close();
    await attempt(["nft", "delete", "table", "inet", this.table]);
    await attempt(["ip", "address", "del", `${this.gateway}/32`, "dev", "lo"]);
    await this.removeInterfaces(new Set());
  }

  /** Interfaces of this server that belong to no slot in `keep` are removed. */
  async removeInterfaces(keep: ReadonlySet<number>): Promise<void> {
    const links = JSON.parse(await run(["ip", "-json", "link", "show", "type", "veth"])) as { ifname?: string }[];
    for (const { ifname } of links) {
      if (ifname === undefined || !ifname.startsWith(this.#interfacePrefix)) continue;
      if (keep.has(Number(ifname.slice(this.#interfacePrefix.length + 1)))) continue;
      await attempt(["ip", "link", "delete", ifname]);
    }
  }

  take(): number {
    for (let tried = SLOT_FIRST; tried <= SLOT_LAST; tried++) {
      const slot = this.#next;
      // Round robin, so that a freed address rests before it is used again.
      this.#next = slot === SLOT_LAST ? SLOT_FIRST : slot + 1;
      if (this.#taken.has(slot)) continue;
      this.#taken.add(slot);
      return slot;
    }
    throw new Fault(503, `all ${SLOT_LAST - SLOT_FIRST + 1} network slots are in use`);
  }

  /** A slot of a sandbox that was found running. */
  adopt(slot: number, offline: boolean): void {
    this.#taken.add(slot);
    if (offline) this.#offline.add(slot);
  }

  /** Connects the network namespace of process `pid` to the slot. */
  async plug(slot: number, pid: number): Promise<void> {
    const outer = `${this.#interfacePrefix}-${slot}`;
    const address = this.address(slot);
    await run(["ip", "-batch", "-"], {
      stdin: [
        `link add ${outer} address ${GATEWAY_MAC} mtu ${this.#mtu} type veth ` +
          `peer name eth0 address ${SANDBOX_MAC} mtu ${this.#mtu} netns ${pid}`,
        `link set ${outer} addrgenmode none`,
        `link set ${outer} up`,
        `route replace ${address}/32 dev ${outer} src ${this.gateway}`,
        `neighbor replace ${address} lladdr ${SANDBOX_MAC} dev ${outer} nud permanent`,
      ].join("\n"),
    });
    writeFileSync(`/proc/sys/net/ipv6/conf/${outer}/disable_ipv6`, "1");
    await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "ip", "-batch", "-"], {
      stdin: [
        "link set lo up",
        `address add ${SANDBOX_ADDRESS}/32 dev eth0`,
        `address add ${address}/32 dev eth0`,
        "link set eth0 addrgenmode none",
        "link set eth0 up",
        `neighbor replace ${NAMESERVER_ADDRESS} lladdr ${GATEWAY_MAC} dev eth0 nud permanent`,
        `route add default via ${NAMESERVER_ADDRESS} dev eth0 src ${address} onlink`,
      ].join("\n"),
    });
  }

  /** Cuts a sandbox off from everything but connections that this machine opens to it. */
  async cutOff(slot: number): Promise<void> {
    this.#offline.add(slot);
    await this.#nft(`add element inet ${this.table} offline { ${this.address(slot)} }\n`);
  }

  /** Gives a slot back. The veth pair is gone with the sandbox's namespace; one that was never plugged has none. */
  async free(slot: number): Promise<void> {
    await attempt(["ip", "link", "delete", `${this.#interfacePrefix}-${slot}`]);
    if (this.#offline.delete(slot)) {
      await this.#nft(`delete element inet ${this.table} offline { ${this.address(slot)} }\n`);
    }
    this.#taken.delete(slot);
  }

  async #refreshOnLink(): Promise<void> {
    try {
      const now = this.#onLinkElements();
      if (now === this.#onLink) return;
      await this.#nft(`flush set inet ${this.table} onlink\n${addElements(this.table, "onlink", now)}`);
      this.#onLink = now;
    } catch (error) {
      console.error(
        JSON.stringify({ level: "error", message: "cannot refresh on-link networks", reason: String(error) }),
      );
    }
  }

  #onLinkElements(): string {
    return onLinkRanges(readFileSync("/proc/net/route", "utf8")).join(", ");
  }

  async #nft(script: string): Promise<void> {
    await run(["nft", "-f", "-"], { stdin: script });
  }

  #ruleset(): string {
    const ours = `"${this.#interfacePrefix}-*"`;
    const dns = `ip daddr ${NAMESERVER_ADDRESS}`;
    const offline = [...this.#offline].map((slot) => this.address(slot)).join(", ");
    return `
table inet ${this.table}
delete table inet ${this.table}
table inet ${this.table} {
  set closed { type ipv4_addr; flags interval; auto-merge; elements = { ${CLOSED_RANGES.join(", ")} } }
  set onlink { type ipv4_addr; flags interval; auto-merge; }
  set offline { type ipv4_addr; }
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
    iifname ${ours} ${dns} udp dport 53 dnat ip to ${this.gateway}:53
    iifname ${ours} ${dns} tcp dport 53 dnat ip to ${this.gateway}:53
  }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmp type admin-prohibited
  }
  chain here {
    type filter hook input priority filter; policy accept;
    iifname ${ours} jump to_machine
  }
  chain to_machine {
    ct state established,related accept
    ip saddr @offline jump refuse
    udp dport 53 add @asking { ip saddr limit rate over ${DNS_RATE} } drop
    ip daddr ${this.gateway} udp dport 53 accept
    ip daddr ${this.gateway} tcp dport 53 accept
    jump refuse
  }
  chain through {
    type filter hook forward priority filter; policy accept;
    iifname ${ours} jump to_outside
    oifname ${ours} jump to_sandbox
  }
  chain to_outside {
    ip saddr @offline jump refuse
    ct state new add @connections { ip saddr ct count over ${CONNECTIONS_MAX} } jump refuse
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
    ip saddr ${netAddress(this.net)}/${NET_PREFIX} oifname != ${ours} masquerade
  }
}
${addElements(this.table, "onlink", this.#onLink)}${addElements(this.table, "offline", offline)}`;
  }
}

/** Packets of sandboxes leave through the uplink, so they must fit it. */
async function uplinkMtu(): Promise<number> {
  const device = defaultRouteDevice(readFileSync("/proc/net/route", "utf8"));
  if (device === undefined) return MTU_DEFAULT;
  // Not from /sys: what is mounted there may belong to another network namespace.
  const [link] = JSON.parse(await run(["ip", "-json", "link", "show", "dev", device])) as { mtu?: number }[];
  return link?.mtu ?? MTU_DEFAULT;
}

function addElements(table: string, set: string, elements: string): string {
  return elements === "" ? "" : `add element inet ${table} ${set} { ${elements} }\n`;
}
