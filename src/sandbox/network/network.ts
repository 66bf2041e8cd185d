/**
 * The network of sandboxes: a slot for each, one nftables table for all. A slot is an address (address-plan.ts) and a
 * veth pair (plugging.ts). The table (ruleset.ts) closes everything that is not plainly the public internet.
 *
 * This folder decides which packets pass. It never reads or forwards the bytes of connections; src/egress does.
 */
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { Background } from "../../base/background.ts";
import { systemClock } from "../../base/clock.ts";
import type { CountsByName } from "../../base/event-counts.ts";
import { described, stderrLog } from "../../base/log.ts";
import { RetryQueue } from "../../base/retry-queue.ts";
import { CLOSED_RANGES, gatewayAddress, SLOT_FIRST, SLOT_LAST, slotAddress } from "../../contract/address-plan.ts";
import type { Egress, LookedUp, RuleAnswer } from "../../contract/internal/host.ts";
import { Ipv4Ranges, ipv4Range } from "../../contract/ip-range.ts";
import type { EgressMatcher } from "../../egress/egress-matcher.ts";
import { NameClient } from "../../egress/program/name-client.ts";
import type { RuleRequest } from "../../egress/relay-messages.ts";
import { attempt, run } from "../../system/command.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import type { IdRange } from "../../system/id-range.ts";
import { hasConnectedUdp } from "../../system/net/connected-udp.ts";
import { Firewall } from "../../system/net/nft.ts";
import { defaultRouteDevice } from "../../system/net/on-link.ts";
import { type ConnectionRelay, EgressRules } from "./egress-rules.ts";
import { Links } from "./links.ts";
import { namespaceSettings } from "./namespace-settings.ts";
import { NetworkQuiesce } from "./network-quiesce.ts";
import { OnLinkSet } from "./on-link-set.ts";
import { INNER_INTERFACE, type OuterEnd, shaping } from "./plugging.ts";
import { addressBefore, closeConnectionsScript, HOLD_COMMAND, type SocketsBefore } from "./restored-plug.ts";
import { admitAll, ruleset } from "./ruleset.ts";
import { ANY_INTERFACE, type OpenAddress } from "./slot-chains.ts";
import { Slots, serverNet } from "./slots.ts";

const MTU_DEFAULT = 1500;
const DNS_PORT = 53;
/** Retry delays for a slot that could not be freed; they double from the first to the second. */
const SLOT_RETRY_MIN_MS = 1_000;
const SLOT_RETRY_MAX_MS = 60_000;

/** Opens the connection relay; `closed` lists the ranges that no sandbox may reach. */
type OpenRelay = (options: {
  gateway: string;
  closed: () => readonly string[];
  onTrouble: (address: string, message: string) => void;
  onDecisions: (decisions: CountsByName) => void;
  onRuleRequest: (asked: RuleRequest) => void;
}) => Promise<ConnectionRelay>;

/** The namespace that is connected to a slot; fields as in plugging.ts. */
type Plugged = Pick<OuterEnd, "namespace" | "slotAlone"> & { slot: number };

/** `willResume`: id of the sandbox that had the slot, if it will be restored. */
interface Freed {
  slot: number;
  willResume: string | undefined;
}

export class Network {
  readonly net: number;
  readonly table: string;
  readonly #interfacePrefix: string;
  readonly #slots = new Slots();
  /** By free slot: the sandbox whose connections conntrack may know, or "none" for none. Absent: any sandbox. */
  readonly #flows = new Map<number, string>();
  /** Taken slots that are not plugged in yet and for which conntrack may know connections of earlier sandboxes. */
  readonly #withFlows = new Set<number>();
  readonly #links: Links;
  readonly #egress: EgressRules;
  readonly #onLink: OnLinkSet;
  readonly #background = new Background(stderrLog);
  readonly #freeing = new RetryQueue<Freed>({
    clock: systemClock,
    background: this.#background,
    work: (freed) => this.#free(freed),
    failed: ({ slot }, error) => {
      const event = "a slot could not be freed; retrying";
      stderrLog.write({ level: "error", event, slot, error: described(error) });
    },
    atOnce: 1,
    retryMinMs: SLOT_RETRY_MIN_MS,
    retryMaxMs: SLOT_RETRY_MAX_MS,
  });
  /** Slots of sandboxes that were found running. */
  readonly #adopted: number[] = [];
  /**
   * Called before an address may go to another sandbox. Resolves when no process on this machine sends data there that
   * was meant for the previous sandbox. Must not reject.
   */
  beforeReuse: (address: string) => Promise<void> = async () => undefined;
  /** Called with the address of a sandbox whose connections fail, and the reason. */
  onTrouble: (address: string, message: string) => void = () => undefined;
  /** Called at intervals with the outcomes of connections through the relay. */
  onDecisions: (decisions: CountsByName) => void = () => undefined;
  /** Called when a request of the sandbox with the address `source` needs the headers of its rule. */
  onRuleRequest: (asked: RuleRequest) => void = () => undefined;
  #isStrict = false;
  #mtu = MTU_DEFAULT;

  /** `bandwidthMbit` limits each direction of each sandbox; undefined: no limit. */
  constructor(
    data: Pick<DataFolder, "runFolder" | "tag">,
    readonly bandwidthMbit?: number,
    private readonly firewall: Firewall = new Firewall(),
  ) {
    this.net = serverNet(data);
    this.#links = new Links(this.net);
    this.table = `sandlot_${data.tag}`;
    this.#interfacePrefix = `${ANY_INTERFACE}${data.tag}`;
    const { net, table } = this;
    const nft = (script: string) => this.firewall.run(script);
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

  /** The matcher of the sandbox with this address; undefined: it has no rules. */
  matcherOf(address: string): EgressMatcher | undefined {
    return this.#egress.matcherOf(address);
  }

  /** Marks addresses that no sandbox may reach: closed ranges without `open`, and the machine's own. */
  async lookUp(host: string, open: readonly string[]): Promise<LookedUp[]> {
    const isAddress = ipv4Range(host) !== undefined && !host.includes("/");
    const names = new NameClient({ address: this.gateway, port: DNS_PORT });
    const addresses = isAddress ? [host] : await names.resolve(host);
    const closed = new Ipv4Ranges([...CLOSED_RANGES, ...this.#onLink.ranges]).without(new Ipv4Ranges(open));
    const own = new Set(Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []));
    return addresses.map((address) => ({ address, isClosed: own.has(address) || closed.has(address) }));
  }

  /** Replaces a table left by an earlier run. Without a relay, rules that allow names allow none. */
  async open(openRelay?: OpenRelay): Promise<void> {
    await attempt(["ip", "address", "add", `${this.gateway}/32`, "dev", "lo"]);
    this.#mtu = await uplinkMtu();
    const onLink = this.#onLink.read();
    const { table, net, gateway } = this;
    const relay = await openRelay?.({
      gateway,
      closed: () => [...CLOSED_RANGES, ...this.#onLink.ranges],
      onTrouble: (address, message) => this.onTrouble(address, message),
      onDecisions: (decisions) => this.onDecisions(decisions),
      onRuleRequest: (asked) => this.onRuleRequest(asked),
    });
    // The relay must know the rules before connections are redirected to it.
    await this.#egress.use(relay);
    const { slots } = this.#egress;
    const interfacePrefix = this.#interfacePrefix;
    const admitted = this.#isStrict ? this.#adopted.map((slot) => this.address(slot)) : undefined;
    await this.firewall.run(ruleset({ table, net, interfacePrefix, slots, onLink, relay, admitted }));
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

  /** Removes everything that `open` and `plug` made on this machine. */
  async remove(): Promise<void> {
    await attempt(["nft", "delete", "table", "inet", this.table]);
    await attempt(["ip", "address", "del", `${this.gateway}/32`, "dev", "lo"]);
    await this.removeInterfaces(new Set());
    await this.close();
  }

  /** Removes interfaces of this server that belong to no slot in `keep`. */
  async removeInterfaces(keep: ReadonlySet<number>): Promise<void> {
    const links = JSON.parse(await run(["ip", "-json", "link", "show", "type", "veth"])) as { ifname?: string }[];
    const names = links.flatMap(({ ifname }) => (ifname?.startsWith(this.#interfacePrefix) ? [ifname] : []));
    const over = names.filter((name) => !keep.has(Number(name.slice(this.#interfacePrefix.length + 1))));
    await Promise.all(over.map((name) => this.#removeInterface(name)));
  }

  get slotCount(): number {
    return this.#slots.count;
  }

  get freeSlots(): number {
    return this.#slots.freeCount;
  }

  take(): number {
    return this.#noteTaken(this.#slots.take());
  }

  /** Takes a free slot, preferably the one with this address. */
  takeFor(address: string, id: string): number {
    return this.#noteTaken(this.#slots.takePreferring(this.#slotOf(address)), id);
  }

  #noteTaken(slot: number, id?: string): number {
    const whose = this.#flows.get(slot);
    if (whose !== "none" && (whose === undefined || whose !== id)) this.#withFlows.add(slot);
    this.#flows.delete(slot);
    return slot;
  }

  untilFreed(withinMs: number): Promise<void> {
    return this.#slots.untilFreed(withinMs);
  }

  #slotOf(address: string): number | undefined {
    for (let slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) if (this.address(slot) === address) return slot;
    return undefined;
  }

  /** Takes over the slot of a sandbox that was found running. */
  adopt(slot: number, egress: Egress): void {
    this.#slots.adopt(slot);
    this.#adopted.push(slot);
    this.#egress.adopt(slot, egress);
  }

  /**
   * To be called before `open` when a killed server may have left sandboxes without a record; their rules were only in
   * the old table. Until `admitAll`, only adopted sandboxes may send packets.
   */
  admitAdopted(): void {
    this.#isStrict = true;
  }

  /** To be called when every running sandbox is adopted and no other has a slot. */
  async admitAll(): Promise<void> {
    if (!this.#isStrict) return;
    this.#isStrict = false;
    await this.firewall.run(admitAll(this.table));
  }

  /** Connects the network namespace of process `pid` to the slot. `slotAlone` as in plugging.ts. */
  async plug(slot: number, pid: number, slotAlone = false): Promise<void> {
    const namespace = `/proc/${pid}/ns/net`;
    const end = this.#outerEnd({ slot, namespace, slotAlone });
    await this.#connect(slot, () => this.#links.do({ kind: "plug", end }));
    await this.#shape(slot, namespace);
  }

  /** Connects the namespace of a sandbox that is being restored; see restored-plug.ts. */
  async plugRestored(plugged: Plugged, before: SocketsBefore, ids: IdRange): Promise<void> {
    const { slot, namespace } = plugged;
    if (before.connected) await run(["nsenter", `--net=${namespace}`, "--", ...HOLD_COMMAND]);
    const end = this.#outerEnd(plugged);
    const anew = { settings: namespaceSettings(ids.first), addressBefore: addressBefore(before, end.address) };
    await this.#connect(slot, () => this.#links.do({ kind: "plug", end, anew }));
    await this.#shape(slot, namespace);
  }

  /** Forgets old flows before the interface exists: one thread does both, in this order. */
  async #connect(slot: number, plug: () => Promise<unknown>): Promise<void> {
    const forgotten = this.#withFlows.delete(slot) ? this.#forgetFlows(slot) : undefined;
    await Promise.all([forgotten, plug()]);
  }

  async #shape(slot: number, namespace: string): Promise<void> {
    if (this.bandwidthMbit === undefined) return;
    await run(shaping(this.#interface(slot), this.bandwidthMbit));
    await run(["nsenter", `--net=${namespace}`, "--", ...shaping(INNER_INTERFACE, this.bandwidthMbit)]);
  }

  /** Completes the network after a restore. */
  async settle(slot: number, pid: number, before: SocketsBefore): Promise<void> {
    // Checked only where it matters: with TCP connections there is something to close in any case.
    const connectedUdp = !before.connected && (await hasConnectedUdp(`/proc/${pid}/net`));
    const address = this.address(slot);
    const script = closeConnectionsScript({ address, before, connectedUdp });
    if (script !== undefined) await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "/bin/sh", "-ec", script]);
    const left = addressBefore(before, address);
    if (left !== undefined) await this.#links.do({ kind: "settle", process: `/proc/${pid}`, addressBefore: left });
  }

  /**
   * Sets the rules of a sandbox. Resolves when they apply to all traffic, including connections that are already open.
   * When it throws, the previous rules apply, or the error says that either may apply.
   */
  async setEgress(slot: number, egress: Egress): Promise<void> {
    await this.#egress.set(slot, egress);
  }

  /** Replies to `onRuleRequest`. */
  answerRule(question: string, answer: RuleAnswer): void {
    this.#egress.relay?.answerRule(question, answer);
  }

  /** Opens addresses that are closed to all other sandboxes, until the slot is freed or its egress is set. */
  async grant(slot: number, openAddresses: readonly OpenAddress[]): Promise<void> {
    await this.#egress.grant(slot, openAddresses);
  }

  /** Quiets the network of a sandbox before its checkpoint. */
  quiesce(slot: number): NetworkQuiesce {
    return new NetworkQuiesce(this.address(slot), this.#interface(slot));
  }

  /** Bytes to and from the sandbox; undefined when it has no interface. */
  traffic(slot: number): number | undefined {
    const lines = readFileSync("/proc/net/dev", "utf8").split("\n");
    const counts = lines.find((line) => line.trim().startsWith(`${this.#interface(slot)}:`))?.split(":")[1];
    const [received, , , , , , , , sent] = counts?.trim().split(/\s+/).map(Number) ?? [];
    return received === undefined || sent === undefined ? undefined : received + sent;
  }

  /** The veth pair would disappear with the sandbox's namespace, but not at once. */
  async unplug(slot: number): Promise<void> {
    await this.#removeInterface(this.#interface(slot));
  }

  /** A remaining interface only affects the next sandbox with this slot, whose start then fails. */
  async #removeInterface(name: string): Promise<void> {
    try {
      await this.#links.unplug(name);
    } catch (error) {
      const event = "the interface of an ended sandbox could not be removed";
      stderrLog.write({ level: "error", event, name, error: described(error) });
    }
  }

  /**
   * Frees a slot that is unplugged. A sandbox that will be restored closes its connections then, so conntrack keeps
   * them until the slot goes to another sandbox. Never rejects: a slot whose rules cannot be removed is retried and
   * stays taken until then.
   */
  async free(slot: number, willResume?: string): Promise<void> {
    await this.#freeing.finish({ slot, willResume }).catch(() => undefined);
  }

  async #free({ slot, willResume }: Freed): Promise<void> {
    // `forget` also waits for changes in progress, such as a cancelled build that opens an address. Both run to their
    // end: a retry of `beforeReuse` would succeed while the first call still waits.
    const done = await Promise.allSettled([this.#egress.forget(slot), this.beforeReuse(this.address(slot))]);
    for (const each of done) if (each.status === "rejected") throw each.reason;
    // The edge has responded to its clients by now, and no other sandbox has the address yet.
    await this.#links.disconnect(this.address(slot));
    this.#withFlows.delete(slot);
    this.#flows.delete(slot);
    if (willResume === undefined && (await this.#forgetFlows(slot))) this.#flows.set(slot, "none");
    if (willResume !== undefined) this.#flows.set(slot, willResume);
    this.#slots.free(slot);
  }

  /** Packets to the previous sandbox would reach the next one. False: the flows are still known. */
  async #forgetFlows(slot: number): Promise<boolean> {
    try {
      await this.#links.do({ kind: "forget", address: this.address(slot) });
      return true;
    } catch (error) {
      const event = "tracked connections of an ended sandbox could not be removed";
      stderrLog.write({ level: "error", event, address: this.address(slot), error: described(error) });
      return false;
    }
  }

  #interface(slot: number): string {
    return `${this.#interfacePrefix}-${slot}`;
  }

  #outerEnd({ slot, namespace, slotAlone }: Plugged): OuterEnd {
    const [name, address] = [this.#interface(slot), this.address(slot)];
    return { name, address, gateway: this.gateway, mtu: this.#mtu, namespace, slotAlone };
  }
}

/** Packets of sandboxes leave through the uplink, so they must fit its MTU. */
async function uplinkMtu(): Promise<number> {
  const device = defaultRouteDevice(readFileSync("/proc/net/route", "utf8"));
  if (device === undefined) return MTU_DEFAULT;
  // Not read from /sys, which may show another network namespace.
  const [link] = JSON.parse(await run(["ip", "-json", "link", "show", "dev", device])) as { mtu?: number }[];
  return link?.mtu ?? MTU_DEFAULT;
}
