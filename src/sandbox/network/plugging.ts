/** Connects sandboxes to their slots and disconnects them, with blocking netlink calls. Runs on a dedicated thread. */
import { writeFileSync } from "node:fs";
import { SystemError } from "../../base/c-library.ts";
import { GATEWAY_MAC, NAMESERVER_ADDRESS, SANDBOX_ADDRESS, SANDBOX_MAC } from "../../contract/address-plan.ts";
import { Fault } from "../../contract/fault.ts";
import { forgetFlows } from "../../system/net/conntrack.ts";
import { NETLINK_ROUTE, NetlinkSocket, OtherNamespace } from "../../system/net/netlink.ts";
import {
  addAddress,
  addDefaultRoute,
  addMachineRoute,
  addVeth,
  deleteGroup,
  deleteLink,
  findLink,
  isLinkRunning,
  linkNumber,
  putInGroup,
  putNeighbour,
  putRoute,
  type RouteRequest,
  removeAddress,
  setUp,
  withoutIpv6Address,
} from "../../system/net/route-messages.ts";
import { destroyConnections } from "../../system/net/socket-destroy.ts";

export const INNER_INTERFACE = "eth0";

/** The veth pair of a slot. Its inner end exists before the first process of the sandbox runs. */
export interface OuterEnd {
  name: string;
  address: string;
  gateway: string;
  mtu: number;
  namespace: string;
  /** The inner end has only the slot's address; the address common to all sandboxes is on the loopback. */
  slotAlone: boolean;
}

export type LinkJob =
  /** `namespace` is a path. */
  | { kind: "plug"; end: OuterEnd; anew?: NewNamespace }
  /** Completes a restored sandbox, given its first process: removes the address it had before. */
  | { kind: "settle"; process: string; addressBefore: string }
  /** Deletes conntrack entries from and to this address. */
  | { kind: "forget"; address: string }
  /** Closes the machine's own connections to this address. */
  | { kind: "disconnect"; address: string }
  /** Removes those of these interfaces that exist. */
  | { kind: "unplug"; names: readonly string[]; group: number };

/** Setup of a namespace for a sandbox that is being restored. Other namespaces are created with these settings. */
interface NewNamespace {
  settings: Readonly<Record<string, string>>;
  /** Set when the sandbox had another address before. */
  addressBefore: string | undefined;
}

/** The loopback's number is the same in every network namespace. */
const LOOPBACK_NUMBER = 1;
const ENODEV = 19;
/** A slower kernel loses the first packets to a sandbox. */
const RUNNING_MAX_MS = 1_000;
/** Maximum queueing delay at an end of a sandbox's interface before packets are dropped. */
const QUEUE_MS = 50;
/** Minimum burst: a few of the largest packets, and the bytes that pass during one tick of the slowest kernel clock. */
const BURST_MIN_BYTES = 256 * 1024;
const TICKS_PER_SECOND = 100;

let ownSocket: NetlinkSocket | undefined;

export function performLinkJob(job: LinkJob): void {
  // Opened once, in the namespace in which this thread started.
  ownSocket ??= new NetlinkSocket(NETLINK_ROUTE);
  if (job.kind === "plug") plug(ownSocket, job.end, job.anew);
  else if (job.kind === "settle") settle(job);
  else if (job.kind === "unplug") unplug(ownSocket, job);
  else if (job.kind === "disconnect") destroyConnections(job.address);
  else forgetFlows(job.address);
}

/** plugging.root.test.ts compares the result with that of the same requests as `ip` commands. */
function plug(socket: NetlinkSocket, end: OuterEnd, anew: NewNamespace | undefined): void {
  const { name, address, gateway, mtu, slotAlone } = end;
  using namespace = new OtherNamespace(end.namespace);
  // First, because some settings are defaults for new interfaces.
  if (anew !== undefined) namespace.inside(() => writeSettings(anew.settings));
  const [own, peer] = [
    { name, mac: GATEWAY_MAC },
    { name: INNER_INTERFACE, mac: SANDBOX_MAC },
  ];
  const device = numberOf(socket, name, [addVeth(own, peer, mtu, namespace.fd)]);
  writeFileSync(`/proc/sys/net/ipv6/conf/${name}/disable_ipv6`, "1");
  demand(socket, [
    withoutIpv6Address(device),
    setUp(device),
    putRoute(device, address, gateway),
    putNeighbour(device, address, SANDBOX_MAC),
  ]);
  using inside = namespace.socket();
  const inner = numberOf(inside, INNER_INTERFACE, []);
  demand(inside, [
    setUp(LOOPBACK_NUMBER),
    addAddress(slotAlone ? LOOPBACK_NUMBER : inner, SANDBOX_ADDRESS),
    addAddress(inner, address),
    withoutIpv6Address(inner),
    setUp(inner),
    putNeighbour(inner, NAMESERVER_ADDRESS, GATEWAY_MAC),
    addDefaultRoute(inner, NAMESERVER_ADDRESS, address),
    // The network stack of runsc has no use for this route.
    ...(slotAlone ? [] : [addMachineRoute(inner, gateway, NAMESERVER_ADDRESS, address)]),
    ...(anew?.addressBefore === undefined ? [] : [addAddress(LOOPBACK_NUMBER, anew.addressBefore)]),
  ]);
  waitUntilRunning(socket, name);
}

/**
 * The kernel starts the end that was set up first from a work queue, and until then drops what is sent to the sandbox,
 * such as the answer to its first DNS query. Newer kernels catch up with that queue when they are asked.
 */
function waitUntilRunning(socket: NetlinkSocket, name: string): void {
  for (let waitedMs = 0; waitedMs < RUNNING_MAX_MS; waitedMs++) {
    const answer = demand(socket, [findLink(name)])[0]?.[0];
    if (answer !== undefined && isLinkRunning(answer)) return;
    Bun.sleepSync(1);
  }
}

function settle({ process, addressBefore }: Extract<LinkJob, { kind: "settle" }>): void {
  using namespace = new OtherNamespace(`${process}/ns/net`);
  using inside = namespace.socket();
  demand(inside, [removeAddress(LOOPBACK_NUMBER, addressBefore)]);
}

function writeSettings(settings: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(settings)) {
    writeFileSync(`/proc/sys/${name.replaceAll(".", "/")}`, value);
  }
}

/**
 * Removes interfaces and their peers. A missing one has gone with its namespace. All go in one request, so a killed
 * server leaves no interface marked for removal that a later server adopts.
 */
function unplug(socket: NetlinkSocket, { names, group }: Extract<LinkJob, { kind: "unplug" }>): void {
  const marked = names.map((name) => putInGroup(name, group));
  demand(socket, names.length === 1 ? names.map(deleteLink) : [...marked, deleteGroup(group)], [ENODEV]);
}

/**
 * A `tc` command that limits what an interface sends. Applied at both ends, it limits both directions. It delays
 * senders instead of dropping packets, which they would send again.
 */
export function shaping(device: string, mbit: number): string[] {
  const burst = Math.max(BURST_MIN_BYTES, (2 * mbit * 125_000) / TICKS_PER_SECOND);
  return `tc qdisc replace dev ${device} root tbf rate ${mbit}mbit burst ${burst} latency ${QUEUE_MS}ms`.split(" ");
}

/** Sends these requests, then asks for the number of the interface. */
function numberOf(socket: NetlinkSocket, name: string, before: readonly RouteRequest[]): number {
  const answer = demand(socket, [...before, findLink(name)]).at(-1)?.[0];
  if (answer === undefined) throw new Fault(500, `the kernel did not return the index of the interface ${name}`);
  return linkNumber(answer);
}

/** Performs all requests. Throws a Fault with the first that the kernel refused. */
function demand(socket: NetlinkSocket, requests: readonly RouteRequest[], allowed: readonly number[] = []): Buffer[][] {
  const outcomes = socket.ask(requests);
  outcomes.forEach(({ refused, message }, index) => {
    if (refused === 0 || allowed.includes(refused)) return;
    const cause = new SystemError(requests[index]?.what ?? "a request", refused);
    throw new Fault(500, message === undefined ? cause.message : `${cause.message}: ${message}`, { cause });
  });
  return outcomes.map(({ answers }) => answers);
}
