/**
 * Network of sandboxes: a slot for each, one nftables table for all.
 *
 * A slot is an address and a veth pair. One end is born inside the sandbox's network namespace as eth0, before its first
 * process runs, and dies with it. The table closes everything that is not plainly the outside: from the first packet on, a
 * sandbox reaches neither this machine, nor its neighbours, nor private networks; forged sources and IPv6 are dropped. What is
 * closed answers at once that it is, so that no program waits for a time-out. On this machine only root, that is the server, reaches a sandbox: the edge is the one door for everybody else.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { attempt, run } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { HOST_ID_FIRST } from "../system/id-range.ts";
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
} from "./address-plan.ts";
import { hasConnectedUdp } from "./connected-udp.ts";
import { namespaceSettings } from "./namespace-settings.ts";
import { defaultRouteDevice, onLinkRanges } from "./on-link.ts";
import { serverNet } from "./server-net.ts";

const NET_PREFIX = 20;
/** Inside a sandbox that is being restored, for that moment. */
const HOLD = "sandlot_hold";
/** Begins the name of every sandbox's interface, on whichever server. */
const ANY_INTERFACE = "slot";
const ON_LINK_REFRESH_MS = 5_000;
const MTU_DEFAULT = 1500;
/** Of one sandbox to the outside, at once: the kernel's table of them is shared by the whole machine. */
const CONNECTIONS_MAX = 8192;
/** Of one sandbox: more would crowd out the questions of its neighbours. */
const DNS_RATE = "200/second burst 200 packets";

/** What is known of the sockets of a sandbox that is being restored. */
export interface SocketsBefore {
  /** Where the sandbox was reached. */
  address: string;
  /** Whether there are TCP connections among them. */
  connected: boolean;
}

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
    this.net = serverNet(data);
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

  /** A free slot; if it can be had, the one with this address. */
  takeFor(address: string): number {
    const slot = this.#slotOf(address);
    if (slot === undefined || this.#taken.has(slot)) return this.take();
    this.#taken.add(slot);
    return slot;
  }

  #slotOf(address: string): number | undefined {
    for (let slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) if (this.address(slot) === address) return slot;
    return undefined;
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
    await run(["ip", "-batch", "-"], { stdin: this.#outerEnd(slot, String(pid)) });
    writeFileSync(`/proc/sys/net/ipv6/conf/${this.#interface(slot)}/disable_ipv6`, "1");
    await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "ip", "-batch", "-"], { stdin: this.#innerEnd(slot) });
  }

  /**
   * The same as shell commands, for a sandbox that is being restored: its network namespace, the one of the process
   * $CRTOOLS_INIT_PID, has just been made and lacks the settings of the one before. Sockets may be bound to the address that
   * the sandbox had; while they are restored it has to be there. And until all of them are, no packet may arrive: one that
   * finds the other end missing would break the connection. `settle` ends both.
   */
  plugCommands(slot: number, before: SocketsBefore): string {
    const settings = Object.entries(namespaceSettings(HOST_ID_FIRST)).map(
      ([name, value]) => `echo "${value}" > /proc/sys/${name.replaceAll(".", "/")}`,
    );
    const { address } = before;
    const alsoBefore = address === this.address(slot) ? [] : [`address add ${address}/32 dev lo`];
    return [
      `ip -batch - <<END\n${this.#outerEnd(slot, "$CRTOOLS_INIT_PID")}\nEND`,
      `echo 1 > /proc/sys/net/ipv6/conf/${this.#interface(slot)}/disable_ipv6`,
      'exec nsenter --net="/proc/$CRTOOLS_INIT_PID/ns/net" -- /bin/sh -e <<END',
      ...settings,
      // The setting for new interfaces came too late for this one.
      "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6",
      ...(before.connected
        ? [`nft 'table inet ${HOLD} { chain input { type filter hook input priority raw; policy drop; }; }'`]
        : []),
      `ip -batch - <<INNER\n${[this.#innerEnd(slot), ...alsoBefore].join("\n")}\nINNER`,
      "END",
    ].join("\n");
  }

  /**
   * After a restore: connections within the sandbox go on. Those to the outside are closed: their other ends have long given
   * up, or belong to the sandbox that this one is a copy of. On a kernel that cannot close them they lead nowhere and time out.
   * With a name, the sandbox is called that from now on. For most there is nothing to do, and then nothing is started.
   */
  async settle(slot: number, pid: number, before: SocketsBefore, name: string | undefined): Promise<void> {
    const address = this.address(slot);
    const within = ["127.0.0.0/8", "[::1]", SANDBOX_ADDRESS, address, before.address].map((each) => `dst ${each}`);
    const mayLeadOutside = before.connected || (await hasConnectedUdp(`/proc/${pid}/net`));
    const outside = `not ( ${within.join(" or ")} )`;
    const commands = [
      mayLeadOutside && `ss --kill --no-header --tcp --udp --numeric state connected '${outside}' > /dev/null || true`,
      before.connected && `nft delete table inet ${HOLD}`,
      before.address !== address && `ip address del ${before.address}/32 dev lo`,
      name !== undefined && `echo ${name} > /proc/sys/kernel/hostname`,
    ].filter((command) => command !== false);
    if (commands.length === 0) return;
    const inside = [`--net=/proc/${pid}/ns/net`, `--uts=/proc/${pid}/ns/uts`];
    await run(["nsenter", ...inside, "--", "/bin/sh", "-ec", commands.join("\n")]);
  }

  #interface(slot: number): string {
    return `${this.#interfacePrefix}-${slot}`;
  }

  #outerEnd(slot: number, netns: string): string {
    const outer = this.#interface(slot);
    const address = this.address(slot);
    return [
      `link add ${outer} address ${GATEWAY_MAC} mtu ${this.#mtu} type veth ` +
        `peer name eth0 address ${SANDBOX_MAC} mtu ${this.#mtu} netns ${netns}`,
      `link set ${outer} addrgenmode none`,
      `link set ${outer} up`,
      `route replace ${address}/32 dev ${outer} src ${this.gateway}`,
      `neighbor replace ${address} lladdr ${SANDBOX_MAC} dev ${outer} nud permanent`,
    ].join("\n");
  }

  #innerEnd(slot: number): string {
    const address = this.address(slot);
    return [
      "link set lo up",
      `address add ${SANDBOX_ADDRESS}/32 dev eth0`,
      `address add ${address}/32 dev eth0`,
      "link set eth0 addrgenmode none",
      "link set eth0 up",
      `neighbor replace ${NAMESERVER_ADDRESS} lladdr ${GATEWAY_MAC} dev eth0 nud permanent`,
      `route add default via ${NAMESERVER_ADDRESS} dev eth0 src ${address} onlink`,
    ].join("\n");
  }

  /** Cuts a sandbox off from everything but connections that this machine opens to it. */
  async cutOff(slot: number): Promise<void> {
    this.#offline.add(slot);
    await this.#nft(`add element inet ${this.table} offline { ${this.address(slot)} }\n`);
  }

  /** The veth pair goes with the sandbox's namespace, but not at once; one that was never plugged has none. */
  async unplug(slot: number): Promise<void> {
    await attempt(["ip", "link", "delete", this.#interface(slot)]);
  }

  /** Gives a slot back that is unplugged. */
  async free(slot: number): Promise<void> {
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
