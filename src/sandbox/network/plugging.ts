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
import { INNER_INTERFACE, type OuterEnd } from "./veth.ts";

export type LinkJob =
  /** `namespace` is a path. */
  | { kind: "plug"; end: Omit<OuterEnd, "bandwidthMbit">; anew?: NewNamespace }
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
  /** Kernel settings by name. */
  settings: Readonly<Record<string, string>>;
  /** Set when the sandbox had another address before. */
  addressBefore: string | undefined;
}

/** The loopback's number is the same in every network namespace. */
const LOOPBACK_NUMBER = 1;
const ENODEV = 19;

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

/** Sends by netlink what testing/ip-batches.ts says as `ip` commands. */
function plug(socket: NetlinkSocket, end: Omit<OuterEnd, "bandwidthMbit">, anew: NewNamespace | undefined): void {
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

/** Sends these requests, then asks for the number of the interface. */
function numberOf(socket: NetlinkSocket, name: string, before: readonly RouteRequest[]): number {
  const answer = demand(socket, [...before, findLink(name)]).at(-1)?.[0];
  if (answer === undefined) throw new Fault(500, `the kernel does not tell the number of the interface ${name}`);
  return linkNumber(answer);
}

/** Performs all requests. Throws a Fault with the first that the kernel refused. */
function demand(socket: NetlinkSocket, requests: readonly RouteRequest[], allowed: readonly number[] = []): Buffer[][] {
  const outcomes = socket.ask(requests);
  outcomes.forEach(({ refused, said }, index) => {
    if (refused === 0 || allowed.includes(refused)) return;
    const cause = new SystemError(requests[index]?.what ?? "a request", refused);
    throw new Fault(500, said === undefined ? cause.message : `${cause.message}: ${said}`, { cause });
  });
  return outcomes.map(({ answers }) => answers);
}
