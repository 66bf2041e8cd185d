/** Connects sandboxes to their slots, and disconnects them. Called on a thread that has nothing else to do. */
import { writeFileSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { SystemError } from "../../work/c-library.ts";
import { NETLINK_ROUTE, NetlinkSocket, OtherNamespace } from "../system/netlink.ts";
import { GATEWAY_MAC, NAMESERVER_ADDRESS, SANDBOX_ADDRESS, SANDBOX_MAC } from "./address-plan.ts";
import {
  addAddress,
  addDefaultRoute,
  addVeth,
  deleteGroup,
  deleteLink,
  findLink,
  linkNumber,
  putInGroup,
  putNeighbour,
  putRoute,
  type RouteRequest,
  setUp,
  withoutIpv6Address,
} from "./route-messages.ts";
import { INNER_INTERFACE, type OuterEnd } from "./veth.ts";

export type LinkJob =
  /** The namespace is a path. */
  | { kind: "plug"; end: Omit<OuterEnd, "bandwidthMbit"> }
  /** Those of these interfaces that there are. */
  | { kind: "unplug"; names: readonly string[]; group: number };

/** The same in every network namespace. */
const LOOPBACK_NUMBER = 1;
const ENODEV = 19;

let ownSocket: NetlinkSocket | undefined;

export function performLinkJob(job: LinkJob): void {
  // Made once, in the namespace in which this thread began.
  ownSocket ??= new NetlinkSocket(NETLINK_ROUTE);
  if (job.kind === "plug") plug(ownSocket, job.end);
  else unplug(ownSocket, job);
}

/** What veth.ts says in words for `ip`. */
function plug(socket: NetlinkSocket, end: Omit<OuterEnd, "bandwidthMbit">): void {
  const { name, address, gateway, mtu, slotAlone } = end;
  using namespace = new OtherNamespace(end.namespace);
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
  ]);
}

/**
 * The peers go along. One that is not there has gone with its namespace. All in one call: if this process is killed,
 * then before or after, so the mark stays on none that somebody finds and keeps.
 */
function unplug(socket: NetlinkSocket, { names, group }: Extract<LinkJob, { kind: "unplug" }>): void {
  const marked = names.map((name) => putInGroup(name, group));
  demand(socket, names.length === 1 ? names.map(deleteLink) : [...marked, deleteGroup(group)], [ENODEV]);
}

/** After these requests. */
function numberOf(socket: NetlinkSocket, name: string, before: readonly RouteRequest[]): number {
  const answer = demand(socket, [...before, findLink(name)]).at(-1)?.[0];
  if (answer === undefined) throw new Fault(500, `the kernel does not tell the number of the interface ${name}`);
  return linkNumber(answer);
}

/** All of them, or a Fault with the first that was refused. */
function demand(socket: NetlinkSocket, requests: readonly RouteRequest[], allowed: readonly number[] = []): Buffer[][] {
  const outcomes = socket.ask(requests);
  outcomes.forEach(({ refused, said }, index) => {
    if (refused === 0 || allowed.includes(refused)) return;
    const cause = new SystemError(requests[index]?.what ?? "a request", refused);
    throw new Fault(500, said === undefined ? cause.message : `${cause.message}: ${said}`, { cause });
  });
  return outcomes.map(({ answers }) => answers);
}
