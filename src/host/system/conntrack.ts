/**
 * Dangerous: speaks to the kernel's table of connections, over netlink through bun:ffi. One call takes half a
 * millisecond, however large the table is; no tool for it need be there.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { errorNumber, onFirstUse, SystemError } from "../../work/c-library.ts";
import { FLOWS_ANSWER_BYTES, FLOWS_FORGOTTEN_MAX } from "../limits.ts";

const libc = onFirstUse({
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  send: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
  recv: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
});

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0x80000;
const NETLINK_NETFILTER = 12;
const MSG_DONTWAIT = 0x40;

/** Types and flags of messages. */
const CT_GET = (1 << 8) | 1;
const CT_DELETE = (1 << 8) | 2;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const WITH_ANSWER = 1 | 4;
const AS_LIST = 1 | 0x300;

/** IPv4, and a version that has the kernel look at the family. */
const FAMILY = Buffer.from([2, 1, 0, 0]);
const HEAD_BYTES = 16;

/** Attributes. */
const NESTED = 0x8000;
const TUPLE_ORIGINAL = 1;
const TUPLE_ADDRESSES = 1;
const ZONE = 18;
const FILTER = 25;
const FILTER_ORIGINAL = 1;
/** Who has begun a flow, or with whom. */
const SIDES = [
  { address: 1, filter: 1 },
  { address: 2, filter: 2 },
];

/** Kernels before 6.8 list by address and remove one by one. */
const CANNOT_BY_ADDRESS: ReadonlySet<number> = new Set([2, 22, 95]);

/** The kernel knows nothing any more of flows from and to this address. `oneByOne`: as with older kernels. */
export function forgetFlows(address: string, { oneByOne = false } = {}): void {
  const fd = libc().socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_NETFILTER);
  if (fd < 0) throw failed("socket", errorNumber());
  try {
    for (const side of SIDES) {
      const which = filterFor(address, side);
      const refused = oneByOne ? 0 : ask(fd, CT_DELETE, which);
      if (refused === 0 && !oneByOne) continue;
      if (refused !== 0 && !CANNOT_BY_ADDRESS.has(refused)) throw failed("removing flows", refused);
      for (const flow of list(fd, which)) ask(fd, CT_DELETE, flow);
    }
  } finally {
    closeSync(fd);
  }
}

function filterFor(address: string, side: { address: number; filter: number }): Buffer {
  const addresses = attribute(side.address, Buffer.from(address.split(".").map(Number)));
  const flags = Buffer.alloc(4);
  flags.writeUInt32LE(side.filter);
  return Buffer.concat([
    attribute(TUPLE_ORIGINAL | NESTED, attribute(TUPLE_ADDRESSES | NESTED, addresses)),
    attribute(FILTER | NESTED, attribute(FILTER_ORIGINAL, flags)),
  ]);
}

/** Both architectures write the lowest byte first. */
function attribute(type: number, data: Buffer): Buffer {
  const bytes = Buffer.alloc(4 + Math.ceil(data.length / 4) * 4);
  bytes.writeUInt16LE(4 + data.length, 0);
  bytes.writeUInt16LE(type, 2);
  data.copy(bytes, 4);
  return bytes;
}

/** The kernel's number of what went wrong; 0 when nothing did. */
function ask(fd: number, type: number, attributes: Buffer): number {
  send(fd, type, WITH_ANSWER, attributes);
  for (const message of receive(fd)) if (message.type === NLMSG_ERROR) return -message.body.readInt32LE(0);
  return 0;
}

/** What names each flow, to remove it by. */
function list(fd: number, attributes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  send(fd, CT_GET, AS_LIST, attributes);
  while (found.length < FLOWS_FORGOTTEN_MAX) {
    const messages = receive(fd);
    for (const { type, body } of messages) {
      if (type === NLMSG_ERROR) throw failed("listing flows", -body.readInt32LE(0));
      if (type !== NLMSG_DONE) found.push(naming(body.subarray(FAMILY.length)));
    }
    if (messages.length === 0 || messages.at(-1)?.type === NLMSG_DONE) break;
  }
  return found;
}

function naming(attributes: Buffer): Buffer {
  const kept: Buffer[] = [];
  for (let at = 0; at + 4 <= attributes.length; ) {
    const length = attributes.readUInt16LE(at);
    const type = attributes.readUInt16LE(at + 2) & ~NESTED;
    if (length < 4) break;
    const padded = Math.ceil(length / 4) * 4;
    if (type === TUPLE_ORIGINAL || type === ZONE) kept.push(attributes.subarray(at, at + padded));
    at += padded;
  }
  return Buffer.concat(kept);
}

function send(fd: number, type: number, flags: number, attributes: Buffer): void {
  const head = Buffer.alloc(HEAD_BYTES);
  const bytes = Buffer.concat([head, FAMILY, attributes]);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt16LE(flags, 6);
  if (libc().send(fd, ptr(bytes), BigInt(bytes.length), 0) < 0) throw failed("send", errorNumber());
}

/** The kernel has its answer ready when `send` returns. */
function receive(fd: number): { type: number; body: Buffer }[] {
  const room = Buffer.alloc(FLOWS_ANSWER_BYTES);
  const length = Number(libc().recv(fd, ptr(room), BigInt(room.length), MSG_DONTWAIT));
  if (length < 0) throw failed("recv", errorNumber());
  const messages: { type: number; body: Buffer }[] = [];
  for (let at = 0; at + HEAD_BYTES <= length; ) {
    const size = room.readUInt32LE(at);
    if (size < HEAD_BYTES) break;
    messages.push({ type: room.readUInt16LE(at + 4), body: room.subarray(at + HEAD_BYTES, at + size) });
    at += Math.ceil(size / 4) * 4;
  }
  return messages;
}

function failed(call: string, number: number): Fault {
  const cause = new SystemError(call, number);
  return new Fault(500, `the kernel's table of connections could not be changed: ${cause.message}`, { cause });
}
