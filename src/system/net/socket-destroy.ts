/**
 * Dangerous: closes TCP connections of the machine in the kernel (SOCK_DESTROY of socket diagnostics), over netlink
 * through bun:ffi. Their owners get ECONNABORTED at once, whatever they are doing.
 *
 * The kernel destroys one socket at a time, so they are listed first, by peer address.
 */
import { SystemError } from "../../base/c-library.ts";
import { attribute, endOfList, NETLINK_ANSWERS_MAX, NETLINK_SOCK_DIAG, NetlinkSocket } from "./netlink.ts";

/** The kernel's responses to so many requests fit a socket's buffer. */
const CONNECTIONS_DESTROYED_AT_ONCE = 64;

/** Message types. */
const LIST = 20;
const DESTROY = 21;

const AF_INET = 2;
/** A dual-stack socket may hold an IPv4 connection as an IPv6 one. */
const AF_INET6 = 10;
const TCP = 6;
/** Every state with a peer but TIME_WAIT (6): SYN_RECV is 3 and 12. CLOSE (7) and LISTEN (10) have none. */
const STATES = [1, 2, 3, 4, 5, 8, 9, 11, 12].reduce((mask, state) => mask | (1 << state), 0);

/** A request: family, protocol, two bytes, states, socket identity. */
const REQUEST_HEAD_BYTES = 8;
/** In a response, after family, state and two bytes: ports, addresses of 16 bytes each, device and cookie. */
const NAME_AT = 4;
const NAME_BYTES = 48;
const PEER_AT = NAME_AT + 4 + 16;

/** A filter that the kernel runs on each socket: one condition on the peer's address. */
const FILTER = 1;
const PEER_CONDITION = 8;
const CONDITION_BYTES = 16;
const REJECT = CONDITION_BYTES + 4;
const ANY_PORT = -1;
const IPV4_BITS = 32;

const ENOENT = 2;
const EOPNOTSUPP = 95;

/** Closes all TCP connections to this IPv4 address in the network namespace of this thread. */
export function destroyConnections(address: string): void {
  const peer = Buffer.from(address.split(".").map(Number));
  using socket = new NetlinkSocket(NETLINK_SOCK_DIAG);
  const sockets = [AF_INET, AF_INET6].flatMap((family) => list(socket, family, peer));
  for (let at = 0; at < sockets.length; at += CONNECTIONS_DESTROYED_AT_ONCE) {
    for (const refused of destroy(socket, sockets.slice(at, at + CONNECTIONS_DESTROYED_AT_ONCE))) {
      // ENOENT: the connection ended by itself meanwhile.
      if (refused !== 0 && refused !== ENOENT) throw new SystemError("destroying a connection", refused);
    }
  }
}

/** Whether the kernel has CONFIG_INET_DIAG_DESTROY. */
export function canDestroyConnections(): boolean {
  using socket = new NetlinkSocket(NETLINK_SOCK_DIAG);
  try {
    list(socket, AF_INET, Buffer.alloc(4));
  } catch (error) {
    if (error instanceof SystemError) return false;
    throw error;
  }
  // No socket has this identity: a kernel that can destroy sockets reports that instead.
  return destroy(socket, [request(AF_INET)])[0] !== EOPNOTSUPP;
}

/** Error numbers, 0 for success. */
function destroy(socket: NetlinkSocket, requests: readonly Buffer[]): number[] {
  return socket.ask(requests.map((body) => ({ type: DESTROY, flags: 0, body }))).map(({ refused }) => refused);
}

/** Requests that identify each of the sockets. */
function list(socket: NetlinkSocket, family: number, peer: Buffer): Buffer[] {
  const found: Buffer[] = [];
  socket.askForList(LIST, Buffer.concat([request(family), attribute(FILTER, peerFilter(peer))]));
  for (let turns = 0; turns < NETLINK_ANSWERS_MAX; turns++) {
    for (const message of socket.receive()) {
      const end = endOfList(message);
      if (end === 0) return found;
      if (end !== undefined) throw new SystemError("listing connections", end);
      // The kernel has already filtered; checked again so that no other socket is destroyed.
      if (hasPeer(message.body, peer))
        found.push(request(family, message.body.subarray(NAME_AT, NAME_AT + NAME_BYTES)));
    }
  }
  return found;
}

function request(family: number, name: Buffer = Buffer.alloc(NAME_BYTES)): Buffer {
  const head = Buffer.alloc(REQUEST_HEAD_BYTES);
  head.writeUInt8(family, 0);
  head.writeUInt8(TCP, 1);
  head.writeUInt32LE(STATES, 4);
  return Buffer.concat([head, name]);
}

function peerFilter(peer: Buffer): Buffer {
  const condition = Buffer.alloc(CONDITION_BYTES);
  condition.writeUInt8(PEER_CONDITION, 0);
  condition.writeUInt8(CONDITION_BYTES, 1);
  condition.writeUInt16LE(REJECT, 2);
  condition.writeUInt8(AF_INET, 4);
  condition.writeUInt8(IPV4_BITS, 5);
  condition.writeInt32LE(ANY_PORT, 8);
  peer.copy(condition, 12);
  return condition;
}

function hasPeer(answer: Buffer, peer: Buffer): boolean {
  const mapped = Buffer.concat([Buffer.alloc(10), Buffer.from([0xff, 0xff]), peer]);
  const wanted = answer.readUInt8(0) === AF_INET ? peer : mapped;
  return answer.subarray(PEER_AT, PEER_AT + wanted.length).equals(wanted);
}
