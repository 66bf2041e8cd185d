/**
 * Dangerous: talks to the kernel's connection tracking table over netlink through bun:ffi; no tool is needed. One call
 * scans the whole table, which all networks of the machine share: half a millisecond, and 0.3 ms more for each thousand
 * flows.
 */
import { SystemError } from "../../base/c-library.ts";
import { Fault } from "../../contract/fault.ts";
import { attribute, attributesOf, endOfList, NETLINK_NETFILTER, NetlinkSocket, nested } from "./netlink.ts";

/** Maximum number of flows to remove for one ended sandbox. */
const FLOWS_FORGOTTEN_MAX = 65_536;

/** Message types. */
const CT_GET = (1 << 8) | 1;
const CT_DELETE = (1 << 8) | 2;

/** IPv4, and a version that makes the kernel check the family. */
const FAMILY = Buffer.from([2, 1, 0, 0]);

const TUPLE_ORIGINAL = 1;
const TUPLE_ADDRESSES = 1;
const ZONE = 18;
const FILTER = 25;
const FILTER_ORIGINAL = 1;
/** The source and the destination of a flow. */
const SIDES = [
  { address: 1, filter: 1 },
  { address: 2, filter: 2 },
];

/** Error numbers of kernels before 6.8, which cannot delete by address: flows are listed and deleted one by one. */
const CANNOT_BY_ADDRESS: ReadonlySet<number> = new Set([2, 22, 95]);

/** Deletes all flows from and to this address. `oneByOne`: as on older kernels. */
export function forgetFlows(address: string, { oneByOne = false } = {}): void {
  try {
    using socket = new NetlinkSocket(NETLINK_NETFILTER);
    for (const side of SIDES) {
      const which = filterFor(address, side);
      const refused = oneByOne ? 0 : remove(socket, which);
      if (refused === 0 && !oneByOne) continue;
      if (refused !== 0 && !CANNOT_BY_ADDRESS.has(refused)) throw new SystemError("removing flows", refused);
      for (const flow of list(socket, which)) remove(socket, flow);
    }
  } catch (cause) {
    if (!(cause instanceof SystemError)) throw cause;
    throw new Fault(500, `the kernel's table of connections could not be changed: ${cause.message}`, { cause });
  }
}

function filterFor(address: string, side: { address: number; filter: number }): Buffer {
  const addresses = attribute(side.address, Buffer.from(address.split(".").map(Number)));
  const flags = Buffer.alloc(4);
  flags.writeUInt32LE(side.filter);
  return Buffer.concat([
    nested(TUPLE_ORIGINAL, nested(TUPLE_ADDRESSES, addresses)),
    nested(FILTER, attribute(FILTER_ORIGINAL, flags)),
  ]);
}

/** The kernel's error number; 0 for success. */
function remove(socket: NetlinkSocket, attributes: Buffer): number {
  const [outcome] = socket.ask([{ type: CT_DELETE, flags: 0, body: Buffer.concat([FAMILY, attributes]) }]);
  return outcome?.refused ?? 0;
}

/** The tuples that identify each flow, for deletion. */
function list(socket: NetlinkSocket, attributes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  socket.askForList(CT_GET, Buffer.concat([FAMILY, attributes]));
  while (found.length < FLOWS_FORGOTTEN_MAX) {
    const messages = socket.receive();
    for (const message of messages) {
      const end = endOfList(message);
      if (end !== undefined && end !== 0) throw new SystemError("listing flows", end);
      if (end === undefined) found.push(naming(message.body.subarray(FAMILY.length)));
    }
    if (messages.some((message) => endOfList(message) !== undefined)) break;
  }
  return found;
}

function naming(attributes: Buffer): Buffer {
  const kept = attributesOf(attributes).filter(({ type }) => type === TUPLE_ORIGINAL || type === ZONE);
  return Buffer.concat(kept.map(({ whole }) => whole));
}
