/**
 * Network of sandboxes: a slot for each, one nftables table for all. A slot is an address (address-plan.ts) and a veth
 * pair (veth.ts); the table (ruleset.ts) closes everything that is not plainly the outside.
 */
import { readFileSync } from "node:fs";
import { Background } from "../../base/background.ts";
import { systemClock } from "../../base/clock.ts";
import { described, stderrLog } from "../../base/log.ts";
import { RetryQueue } from "../../base/retry-queue.ts";
import { CLOSED_RANGES, gatewayAddress, SLOT_FIRST, SLOT_LAST, slotAddress } from "../../contract/address-plan.ts";
import type { Egress, LookedUp } from "../../contract/internal/host.ts";
import type { EgressJudge } from "../../egress/egress-judge.ts";
import { attempt, run } from "../../system/command.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import type { IdRange } from "../../system/id-range.ts";
import { hasConnectedUdp } from "../../system/net/connected-udp.ts";
import { addressesWithFlows, forgetFlows } from "../../system/net/conntrack.ts";
import { Firewall } from "../../system/net/nft.ts";
import { defaultRouteDevice } from "../../system/net/on-link.ts";
import { type ConnectionRelay, EgressRules } from "./egress-rules.ts";
import { Links } from "./links.ts";
import { lookUp } from "./look-up.ts";
import { namespaceSettings } from "./namespace-settings.ts";
import { OnLinkSet } from "./on-link-set.ts";
import { NetworkQuiesce } from "./quiesce.ts";
import { addressBefore, HOLD_COMMAND, hangUpScript, type SocketsBefore } from "./restored-plug.ts";
import { admitAll, ruleset } from "./ruleset.ts";
import { serverNet } from "./server-net.ts";
import { ANY_INTERFACE, type Way } from "./slot-chains.ts";
import { Slots } from "./slots.ts";
import { INNER_INTERFACE, type OuterEnd, shaping } from "./veth.ts";

const MTU_DEFAULT = 1500;
/** Pauses before a slot that could not be given back is tried again double from the first to the second. */
const SLOT_RETRY_MIN_MS = 1_000;
const SLOT_RETRY_MAX_MS = 60_000;

/** Makes the relay of connections; `closed` is what no sandbox may reach. */
type OpenRelay = (options: {
  gateway: string;
  closed: () => readonly string[];
  trouble: (address: string, message: string) => void;
}) => Promise<ConnectionRelay>;

/** What is connected to a slot; as in veth.ts. */
type Plugged = Pick<OuterEnd, "namespace" | "slotAlone"> & { slot: number };

/** `comesBack`: the sandbox that had it, if that does. */
interface Freed {
  slot: number;
  comesBack: string | undefined;
}

export class Network {
  readonly net: number;
  readonly table: string;
  readonly #interfacePrefix: string;
  readonly #slots = new Slots();
  /** Of which sandbox the kernel may still know connections, by free slot. Unknown: of any. */
  readonly #flows = new Map<number, string>();
  /** Slots that are taken, of which the kernel may know connections of before, and that are not plugged in yet. */
  readonly #withFlows = new Set<number>();
  readonly #firewall: Firewall;
  readonly #links: Links;
  readonly #egress: EgressRules;
  readonly #onLink: OnLinkSet;
  readonly #background = new Background(stderrLog);
  readonly #freeing = new RetryQueue<Freed>({
    clock: systemClock,
    background: this.#background,
    work: (freed) => this.#free(freed),
    failed: ({ slot }, error) => {
      const event = "a slot could not be given back, which is tried again";
      stderrLog.write({ level: "error", event, slot, error: described(error) });
    },
    atOnce: 1,
    retryMinMs: SLOT_RETRY_MIN_MS,
    retryMaxMs: SLOT_RETRY_MAX_MS,
  });
  /** Slots of sandboxes that were found running. */
  readonly #adopted: number[] = [];
  /**
   * Called before an address may be another sandbox's: resolves when nobody on this machine sends anything there any
   * more that was meant for the one before. Must not reject.
   */
  leave: (address: string) => Promise<void> = async () => undefined;
  /** Called with the address of a sandbox whose connections fail, and why. */
  trouble: (address: string, message: string) => void = () => undefined;
  #isStrict = false;
  #mtu = MTU_DEFAULT;

  /** `bandwidthMbit` is what passes to each sandbox in a second, and as much from it; undefined: as much as can. */
  constructor(
    data: Pick<DataFolder, "runFolder" | "tag">,
    readonly bandwidthMbit?: number,
    firewall = new Firewall(),
  ) {
    this.#firewall = firewall;
    this.net = serverNet(data);
    this.#links = new Links(this.net);
    this.table = `sandlot_${data.tag}`;
    this.#interfacePrefix = `${ANY_INTERFACE}${data.tag}`;
    const { net, table } = this;
    const nft = (script: string) => this.#firewall.run(script);
    this.#egress = new EgressRules({ net, table, address: (slot) => this.address(slot), nft });
    this.#onLink = new OnLinkSet(table, nft, async (ranges) => {
      await this.#egress.relay?.setClosed([...CLOSED_RANGES, ...ranges]);
    });
  }

  get gateway(): string {
    return gatewayAddress(this.net);
  }

  address(slot: number): string {
    return slotAddress(this.net, slot);
  }

  /** Who decides for the sandbox with this address; undefined: nothing was said about what may leave it. */
  judgeOf(address: string): EgressJudge | undefined {
    return this.#egress.judgeOf(address);
  }

  lookUp(host: string, open: readonly string[]): Promise<LookedUp[]> {
    return lookUp(host, { gateway: this.gateway, closed: [...CLOSED_RANGES, ...this.#onLink.ranges], open });
  }

  /** Puts the rules in place; a table left by an earlier run is replaced. Without a relay, no name is allowed. */
  async open(openRelay?: OpenRelay): Promise<void> {
    await attempt(["ip", "address", "add", `${this.gateway}/32`, "dev", "lo"]);
    this.#mtu = await uplinkMtu();
    const onLink = this.#onLink.read();
    const { table, net, gateway } = this;
    const relay = await openRelay?.({
      gateway,
      closed: () => [...CLOSED_RANGES, ...this.#onLink.ranges],
      trouble: (address, message) => this.trouble(address, message),
    });
    // Before connections are led to it.
    await this.#egress.use(relay);
    const { slots } = this.#egress;
    const interfacePrefix = this.#interfacePrefix;
    const admitted = this.#isStrict ? this.#adopted.map((slot) => this.address(slot)) : undefined;
    await this.#firewall.run(ruleset({ table, net, interfacePrefix, slots, onLink, relay, admitted }));
    this.#onLink.keepFresh();
  }

  async close(): Promise<void> {
    this.#freeing.close();
    await this.#background.settled();
    this.#onLink.close();
    await this.#egress.settled();
    await this.#egress.relay?.close();
    this.#links.close();
  }

  /** Takes away all that `open` and `plug` made on this machine. */
  async remove(): Promise<void> {
    await attempt(["nft", "delete", "table", "inet", this.table]);
    await attempt(["ip", "address", "del", `${this.gateway}/32`, "dev", "lo"]);
    await this.removeInterfaces(new Set());
    await this.close();
  }

  /** Interfaces of this server that belong to no slot in `keep` are removed. */
  async removeInterfaces(keep: ReadonlySet<number>): Promise<void> {
    const links = JSON.parse(await run(["ip", "-json", "link", "show", "type", "veth"])) as { ifname?: string }[];
    const names = links.flatMap(({ ifname }) => (ifname?.startsWith(this.#interfacePrefix) ? [ifname] : []));
    const over = names.filter((name) => !keep.has(Number(name.slice(this.#interfacePrefix.length + 1))));
    await Promise.all(over.map((name) => this.#removeInterface(name)));
  }

  get freeSlots(): number {
    return this.#slots.freeCount;
  }

  /** A free slot. Fault 503 when there is none. */
  take(): number {
    const slot = this.#slots.take();
    if (this.#flows.get(slot) !== "nobody") this.#withFlows.add(slot);
    this.#flows.delete(slot);
    return slot;
  }

  /** A free slot; if it can be had, the one with this address. */
  takeFor(address: string, id: string): number {
    return this.#withoutFlows(this.#slots.takeRather(this.#slotOf(address)), id);
  }

  /** Settles when a slot is given back, or after `withinMs`. */
  untilFreed(withinMs: number): Promise<void> {
    return this.#slots.untilFreed(withinMs);
  }

  #slotOf(address: string): number | undefined {
    for (let slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) if (this.address(slot) === address) return slot;
    return undefined;
  }

  /** A slot of a sandbox that was found running. */
  adopt(slot: number, egress: Egress): void {
    this.#slots.adopt(slot);
    this.#adopted.push(slot);
    this.#egress.adopt(slot, egress);
  }

  /**
   * Before `open`: there may be sandboxes that nothing is known of, left by a server that was killed while it made
   * them. What was said of them was in the table before. Until `admitAll` only those that were adopted may send.
   */
  admitAdopted(): void {
    this.#isStrict = true;
  }

  /** All that runs was adopted, and nothing else has a slot. */
  async admitAll(): Promise<void> {
    this.#seeFlows();
    if (!this.#isStrict) return;
    this.#isStrict = false;
    await this.#firewall.run(admitAll(this.table));
  }

  /** Connects the network namespace of process `pid` to the slot. `slotAlone` as in veth.ts. */
  async plug(slot: number, pid: number, slotAlone = false): Promise<void> {
    const namespace = `/proc/${pid}/ns/net`;
    const { bandwidthMbit: _, ...end } = this.#outerEnd({ slot, namespace, slotAlone });
    await this.#connect(slot, () => this.#links.plug(end));
    await this.#shape(slot, namespace);
  }

  /** The same for a sandbox that is being restored, as restored-plug.ts says. */
  async plugRestored(plugged: Plugged, before: SocketsBefore, ids: IdRange): Promise<void> {
    const { slot, namespace } = plugged;
    if (before.connected) await run(["nsenter", `--net=${namespace}`, "--", ...HOLD_COMMAND]);
    const { bandwidthMbit: _, ...end } = this.#outerEnd(plugged);
    const anew = { settings: namespaceSettings(ids.first), addressBefore: addressBefore(before, end.address) };
    await this.#connect(slot, () => this.#links.plug(end, anew));
    await this.#shape(slot, namespace);
  }

  /** Nobody reaches the address before. Both go to one thread, which does them in this order. */
  async #connect(slot: number, plug: () => Promise<unknown>): Promise<void> {
    const forgotten = this.#withFlows.delete(slot) ? this.#forgetFlows(slot) : undefined;
    await Promise.all([forgotten, plug()]);
  }

  async #shape(slot: number, namespace: string): Promise<void> {
    if (this.bandwidthMbit === undefined) return;
    await run(["tc", ...shaping(this.#interface(slot), this.bandwidthMbit).split(" ")]);
    const inside = ["nsenter", `--net=${namespace}`, "--"];
    await run([...inside, "tc", ...shaping(INNER_INTERFACE, this.bandwidthMbit).split(" ")]);
  }

  /** After a restore. */
  async settle(slot: number, pid: number, before: SocketsBefore): Promise<void> {
    // Looked at only where it matters: with TCP connections there is something to close in any case.
    const connectedUdp = !before.connected && (await hasConnectedUdp(`/proc/${pid}/net`));
    const address = this.address(slot);
    const script = hangUpScript({ address, before, connectedUdp });
    if (script !== undefined) await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "/bin/sh", "-ec", script]);
    const left = addressBefore(before, address);
    if (left !== undefined) await this.#links.settle({ process: `/proc/${pid}`, addressBefore: left });
  }

  /**
   * From now on this may leave the sandbox. Resolves when it holds for everything, connections that were open before
   * included. When it throws, the rules before are in force, or it says that either may be.
   */
  async setEgress(slot: number, egress: Egress): Promise<void> {
    await this.#egress.set(slot, egress);
  }

  /** Opens what is closed to all others, until the slot is given back or its egress is set. */
  async grant(slot: number, ways: readonly Way[]): Promise<void> {
    await this.#egress.grant(slot, ways);
  }

  /** For a sandbox that is about to be written down. */
  quiesce(slot: number): NetworkQuiesce {
    return new NetworkQuiesce(this.address(slot), this.#interface(slot));
  }

  /** How many bytes have gone to and from the sandbox; undefined when it has no interface. */
  traffic(slot: number): number | undefined {
    const lines = readFileSync("/proc/net/dev", "utf8").split("\n");
    const counts = lines.find((line) => line.trim().startsWith(`${this.#interface(slot)}:`))?.split(":")[1];
    const [received, , , , , , , , sent] = counts?.trim().split(/\s+/).map(Number) ?? [];
    return received === undefined || sent === undefined ? undefined : received + sent;
  }

  /** The veth pair goes with the sandbox's namespace, but not at once; one that was never plugged has none. */
  async unplug(slot: number): Promise<void> {
    await this.#removeInterface(this.#interface(slot));
  }

  /** One that stays is in nobody's way but that of the next sandbox with its slot, which is told. */
  async #removeInterface(name: string): Promise<void> {
    try {
      await this.#links.unplug(name);
    } catch (error) {
      const event = "the interface of a sandbox that has ended could not be removed";
      stderrLog.write({ level: "error", event, name, error: described(error) });
    }
  }

  /**
   * Gives a slot back that is unplugged. A sandbox that comes back hangs up then on those that it was connected with,
   * so the kernel goes on to know of these connections until the slot is another's. Never rejects: a slot whose rules
   * cannot be removed is tried again, and nobody else's until then.
   */
  async free(slot: number, comesBack?: string): Promise<void> {
    await this.#freeing.finish({ slot, comesBack }).catch(() => undefined);
  }

  async #free({ slot, comesBack }: Freed): Promise<void> {
    // Also what is only being said: a build that is cancelled gives its slot back while it opens a way.
    // Both come to their end: another try is told that there is nothing to leave, while this one still waits for it.
    const done = await Promise.allSettled([this.#egress.forget(slot), this.leave(this.address(slot))]);
    for (const each of done) if (each.status === "rejected") throw each.reason;
    // The edge has answered its clients by now. The address is not yet another sandbox's.
    await this.#links.disconnect(this.address(slot));
    this.#withFlows.delete(slot);
    this.#flows.delete(slot);
    if (comesBack === undefined && (await this.#forgetFlows(slot))) this.#flows.set(slot, "nobody");
    if (comesBack !== undefined) this.#flows.set(slot, comesBack);
    this.#slots.free(slot);
  }

  /** To forget the flows of a slot takes a while. One without any, to or from it, is as good as left by nobody. */
  #seeFlows(): void {
    try {
      const seen = addressesWithFlows();
      if (seen === undefined) return;
      const inUse = new Set(this.#adopted);
      for (let slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) {
        if (!inUse.has(slot) && !seen.has(this.address(slot))) this.#flows.set(slot, "nobody");
      }
    } catch (error) {
      const event = "connections of slots could not be seen; those of each are forgotten before it is used";
      stderrLog.write({ level: "warn", event, error: described(error) });
    }
  }

  /** For a sandbox that is not `id`, which may have had it before. */
  #withoutFlows(slot: number, id?: string): number {
    const whose = this.#flows.get(slot);
    if (whose !== "nobody" && (whose === undefined || whose !== id)) {
      try {
        forgetFlows(this.address(slot));
      } catch (error) {
        this.#complainOfFlows(slot, error);
      }
    }
    this.#flows.delete(slot);
    return slot;
  }

  /** What a server still sends to the sandbox that had this slot would be led to the next one. False: it may be. */
  async #forgetFlows(slot: number): Promise<boolean> {
    try {
      await this.#links.forget(this.address(slot));
      return true;
    } catch (error) {
      this.#complainOfFlows(slot, error);
      return false;
    }
  }

  #complainOfFlows(slot: number, error: unknown): void {
    const event = "connections of a sandbox that has ended could not be forgotten";
    stderrLog.write({ level: "error", event, address: this.address(slot), error: described(error) });
  }

  #interface(slot: number): string {
    return `${this.#interfacePrefix}-${slot}`;
  }

  #outerEnd({ slot, namespace, slotAlone }: Plugged): OuterEnd {
    const { gateway, bandwidthMbit } = this;
    const [name, address] = [this.#interface(slot), this.address(slot)];
    return { name, address, gateway, mtu: this.#mtu, namespace, bandwidthMbit, slotAlone };
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
