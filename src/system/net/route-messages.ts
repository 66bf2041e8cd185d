/** Netlink messages about interfaces, addresses, routes and neighbours. Pure. */
import { isIPv4 } from "node:net";
import { LOCAL_CONGESTION } from "../../base/local-congestion.ts";
import { Fault } from "../../contract/fault.ts";
import { attribute, type NetlinkRequest } from "./netlink.ts";

/** `what` describes the request in an error. */
export interface RouteRequest extends NetlinkRequest {
  what: string;
}

const NEW_LINK = 16;
const DELETE_LINK = 17;
const GET_LINK = 18;
const SET_LINK = 19;
const NEW_ADDRESS = 20;
const DELETE_ADDRESS = 21;
const NEW_ROUTE = 24;
const NEW_NEIGHBOUR = 28;

const REPLACE = 0x100;
const EXCLUSIVE = 0x200;
const CREATE = 0x400;
const ADD = CREATE | EXCLUSIVE;
const PUT = CREATE | REPLACE;

const AF_INET = 2;
const AF_INET6 = 10;

/** Attributes of links. */
const LINK_ADDRESS = 1;
const LINK_NAME = 3;
const LINK_MTU = 4;
const LINK_INFO = 18;
const LINK_FAMILIES = 26;
const LINK_GROUP = 27;
const LINK_NAMESPACE = 28;
const LINK_WITHOUT = 29;
const INFO_KIND = 1;
const INFO_DATA = 2;
const VETH_PEER = 1;
const STATISTICS = 8;
const IPV6_ADDRESS_MODE = 8;
const NO_IPV6_ADDRESS = 1;
const IS_UP = 1;
const IS_RUNNING = 0x40;

const ADDRESS_PEER = 1;
const ADDRESS_OWN = 2;

const ROUTE_TO = 1;
const ROUTE_DEVICE = 4;
const ROUTE_BY = 5;
const ROUTE_SOURCE = 7;
const ROUTE_METRICS = 8;
const METRIC_CONGESTION = 16;
const MAIN_TABLE = 254;
/** The protocol number that `ip` uses for its routes. */
const BY_BOOT = 3;
const SCOPE_ALL = 0;
const SCOPE_LINK = 253;
const UNICAST = 1;
/** The next hop is on the link, whatever addresses say. */
const ON_LINK = 4;

const NEIGHBOUR_ADDRESS = 1;
const NEIGHBOUR_MAC = 2;
const PERMANENT = 0x80;

const ONE_ADDRESS_BITS = 32;
/** The kernel's limit, without the final zero. */
const NAME_MAX_CHARS = 15;

interface VethEnd {
  name: string;
  mac: string;
}

/** Creates both ends; the peer is created in the namespace open as `namespace`. */
export function addVeth(own: VethEnd, peer: VethEnd, mtu: number, namespace: number): RouteRequest {
  const ofBoth = ({ name, mac }: VethEnd) => [
    attribute(LINK_NAME, text(name)),
    attribute(LINK_ADDRESS, macBytes(mac)),
    attribute(LINK_MTU, word(mtu)),
  ];
  const inside = [link(0), ...ofBoth(peer), attribute(LINK_NAMESPACE, word(namespace))];
  const info = [
    attribute(INFO_KIND, Buffer.from("veth")),
    attribute(INFO_DATA, attribute(VETH_PEER, Buffer.concat(inside))),
  ];
  const body = Buffer.concat([link(0), ...ofBoth(own), attribute(LINK_INFO, ...info)]);
  return { what: `making the interface ${own.name}`, type: NEW_LINK, flags: ADD, body };
}

export function deleteLink(name: string): RouteRequest {
  const body = Buffer.concat([link(0), attribute(LINK_NAME, text(name))]);
  return { what: `removing the interface ${name}`, type: DELETE_LINK, flags: 0, body };
}

/** Links of a group can be deleted together. */
export function putInGroup(name: string, group: number): RouteRequest {
  const body = Buffer.concat([link(0), attribute(LINK_NAME, text(name)), attribute(LINK_GROUP, word(group))]);
  return { what: `marking the interface ${name}`, type: SET_LINK, flags: 0, body };
}

/** Deletes all links of a group. The kernel waits once for all of them to be unused, instead of once for each. */
export function deleteGroup(group: number): RouteRequest {
  const body = Buffer.concat([link(0), attribute(LINK_GROUP, word(group))]);
  return { what: "removing interfaces", type: DELETE_LINK, flags: 0, body };
}

/** `linkNumber` and `isLinkRunning` read the response. */
export function findLink(name: string): RouteRequest {
  const body = Buffer.concat([link(0), attribute(LINK_NAME, text(name)), attribute(LINK_WITHOUT, word(STATISTICS))]);
  return { what: `looking for the interface ${name}`, type: GET_LINK, flags: 0, body };
}

export function linkNumber(answer: Buffer): number {
  return answer.readInt32LE(4);
}

/** Whether the kernel has noticed that both ends are up. Until then it drops packets to the other end. */
export function isLinkRunning(answer: Buffer): boolean {
  return (answer.readUInt32LE(8) & IS_RUNNING) !== 0;
}

export function setUp(device: number): RouteRequest {
  return { what: "setting an interface up", type: SET_LINK, flags: 0, body: link(device, IS_UP) };
}

export function withoutIpv6Address(device: number): RouteRequest {
  const mode = attribute(IPV6_ADDRESS_MODE, Buffer.from([NO_IPV6_ADDRESS]));
  const body = Buffer.concat([link(device), attribute(LINK_FAMILIES, attribute(AF_INET6, mode))]);
  return { what: "keeping IPv6 from an interface", type: SET_LINK, flags: 0, body };
}

export function addAddress(device: number, address: string): RouteRequest {
  const body = oneAddress(device, address);
  return { what: `giving an interface the address ${address}`, type: NEW_ADDRESS, flags: ADD, body };
}

export function removeAddress(device: number, address: string): RouteRequest {
  const body = oneAddress(device, address);
  return { what: `taking the address ${address} from an interface`, type: DELETE_ADDRESS, flags: 0, body };
}

function oneAddress(device: number, address: string): Buffer {
  const head = Buffer.alloc(8);
  head.set([AF_INET, ONE_ADDRESS_BITS, 0, SCOPE_ALL]);
  head.writeInt32LE(device, 4);
  const of = addressBytes(address);
  return Buffer.concat([head, attribute(ADDRESS_OWN, of), attribute(ADDRESS_PEER, of)]);
}

/** A route to one address directly on the device. */
export function putRoute(device: number, to: string, source: string): RouteRequest {
  const body = Buffer.concat([
    route(ONE_ADDRESS_BITS, SCOPE_LINK, 0),
    attribute(ROUTE_TO, addressBytes(to)),
    attribute(ROUTE_DEVICE, word(device)),
    attribute(ROUTE_SOURCE, addressBytes(source)),
    withinMachine(),
  ]);
  return { what: `leading ${to} to an interface`, type: NEW_ROUTE, flags: PUT, body };
}

/** A route to the machine itself, through the common next hop. */
export function addMachineRoute(device: number, to: string, by: string, source: string): RouteRequest {
  const body = Buffer.concat([
    route(ONE_ADDRESS_BITS, SCOPE_ALL, ON_LINK),
    attribute(ROUTE_TO, addressBytes(to)),
    attribute(ROUTE_BY, addressBytes(by)),
    attribute(ROUTE_DEVICE, word(device)),
    attribute(ROUTE_SOURCE, addressBytes(source)),
    withinMachine(),
  ]);
  return { what: `leading ${to} by ${by}`, type: NEW_ROUTE, flags: ADD, body };
}

/** Sets the congestion control for traffic that stays on this machine. */
function withinMachine(): Buffer {
  return attribute(ROUTE_METRICS, attribute(METRIC_CONGESTION, Buffer.from(`${LOCAL_CONGESTION}\0`)));
}

export function addDefaultRoute(device: number, by: string, source: string): RouteRequest {
  const body = Buffer.concat([
    route(0, SCOPE_ALL, ON_LINK),
    attribute(ROUTE_BY, addressBytes(by)),
    attribute(ROUTE_DEVICE, word(device)),
    attribute(ROUTE_SOURCE, addressBytes(source)),
  ]);
  return { what: `leading everything by ${by}`, type: NEW_ROUTE, flags: ADD, body };
}

/** A permanent neighbour entry, so that no ARP query is needed. */
export function putNeighbour(device: number, address: string, mac: string): RouteRequest {
  const head = Buffer.alloc(12);
  head.writeUInt8(AF_INET, 0);
  head.writeInt32LE(device, 4);
  head.writeUInt16LE(PERMANENT, 8);
  const body = Buffer.concat([
    head,
    attribute(NEIGHBOUR_ADDRESS, addressBytes(address)),
    attribute(NEIGHBOUR_MAC, macBytes(mac)),
  ]);
  return { what: `noting who has ${address}`, type: NEW_NEIGHBOUR, flags: PUT, body };
}

/** Changes only the flags that are set. */
function link(device: number, flags = 0): Buffer {
  const head = Buffer.alloc(16);
  head.writeInt32LE(device, 4);
  head.writeUInt32LE(flags, 8);
  head.writeUInt32LE(flags, 12);
  return head;
}

function route(bits: number, scope: number, flags: number): Buffer {
  const head = Buffer.alloc(12);
  head.set([AF_INET, bits, 0, 0, MAIN_TABLE, BY_BOOT, scope, UNICAST]);
  head.writeUInt32LE(flags, 8);
  return head;
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function text(name: string): Buffer {
  if (name === "" || name.length > NAME_MAX_CHARS || name.includes("\0")) {
    throw new Fault(500, `${JSON.stringify(name)} cannot be the name of an interface`);
  }
  return Buffer.from(`${name}\0`, "latin1");
}

function addressBytes(address: string): Buffer {
  if (!isIPv4(address)) throw new Fault(500, `${JSON.stringify(address)} is not an IPv4 address`);
  return Buffer.from(address.split(".").map(Number));
}

function macBytes(mac: string): Buffer {
  return Buffer.from(mac.replaceAll(":", ""), "hex");
}
