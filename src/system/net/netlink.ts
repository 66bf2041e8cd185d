/**
 * Dangerous: reads and changes the kernel's network tables over netlink, through bun:ffi. The kernel handles a request
 * during the send call, which blocks the thread, and its responses are then ready. Both supported architectures are
 * little-endian.
 */
import { FFIType } from "bun:ffi";
import { closeSync, fstatSync, openSync } from "node:fs";
import { errorNumber, onFirstUse, pointerTo, SystemError } from "../../base/c-library.ts";
import { Fault } from "../../contract/fault.ts";
import { visit } from "./namespace-visit.ts";

/** Responses: bytes to read at once, and reads until a request counts as unanswered. */
const NETLINK_ANSWER_BYTES = 64 * 1024;
export const NETLINK_ANSWERS_MAX = 4096;

const libc = onFirstUse({
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  setsockopt: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
  send: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
  recv: { args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32], returns: FFIType.i64 },
});

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0x80000;
const MSG_DONTWAIT = 0x40;
const OWN_NAMESPACE = "/proc/thread-self/ns/net";

const SOL_NETLINK = 270;
/** The kernel does not echo requests in its responses, and adds an error message in words. */
const CAP_ACK = 10;
const EXT_ACK = 11;
/** Offset of that message, after the error number and the head of the request. */
const ACK_WORDS_AT = 4 + 16;
const ACK_WORDS = 1;

export const NETLINK_ROUTE = 0;
export const NETLINK_SOCK_DIAG = 4;
export const NETLINK_NETFILTER = 12;

const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const NLM_REQUEST = 1;
const NLM_ACK = 4;
const NLM_DUMP = 0x300;

const HEAD_BYTES = 16;
const ATTRIBUTE_HEAD_BYTES = 4;
const NESTED = 0x8000;

export interface NetlinkRequest {
  type: number;
  /** Besides NLM_F_REQUEST. */
  flags: number;
  body: Buffer;
}

interface NetlinkMessage {
  type: number;
  sequence: number;
  body: Buffer;
}

/** The result of a request: the kernel's error number, 0 for success, and its message. */
interface NetlinkOutcome {
  refused: number;
  message: string | undefined;
  answers: Buffer[];
}

/** A socket in the namespace of the thread that creates it. */
export class NetlinkSocket implements Disposable {
  readonly #fd: number;
  #sequence = 0;

  constructor(protocol: number) {
    this.#fd = libc().socket(AF_NETLINK, SOCK_RAW_CLOEXEC, protocol);
    if (this.#fd < 0) throw new SystemError("socket", errorNumber());
    // Kernels without these options return only numbers.
    const on = new Int32Array([1]);
    for (const option of [CAP_ACK, EXT_ACK])
      libc().setsockopt(this.#fd, SOL_NETLINK, option, pointerTo(on), on.byteLength);
  }

  /** Sends all requests at once; the kernel performs them in order. A refused one does not stop the others. */
  ask(requests: readonly NetlinkRequest[]): NetlinkOutcome[] {
    const first = this.#sequence;
    this.#send(requests.map(({ type, flags, body }) => ({ type, flags: flags | NLM_ACK, body })));
    const outcomes = requests.map((): NetlinkOutcome => ({ refused: 0, message: undefined, answers: [] }));
    for (let [left, turns] = [requests.length, 0]; left > 0 && turns < NETLINK_ANSWERS_MAX; turns++) {
      for (const { type, sequence, body } of this.receive()) {
        const outcome = outcomes[sequence - first];
        // A leftover of an earlier request that was given up.
        if (outcome === undefined) continue;
        if (type !== NLMSG_ERROR) outcome.answers.push(body);
        else {
          outcome.refused = -body.readInt32LE(0);
          outcome.message = outcome.refused === 0 ? undefined : wordsOf(body);
          left--;
        }
      }
    }
    return outcomes;
  }

  /** Requests a list, which arrives in parts: `receive` returns the next. */
  askForList(type: number, body: Buffer): void {
    this.#send([{ type, flags: NLM_DUMP, body }]);
  }

  /** Returns the messages that are ready. An error is a message with a negative number. */
  receive(): NetlinkMessage[] {
    const room = Buffer.allocUnsafe(NETLINK_ANSWER_BYTES);
    const length = Number(libc().recv(this.#fd, pointerTo(room), BigInt(room.length), MSG_DONTWAIT));
    if (length < 0) throw new SystemError("recv", errorNumber());
    const messages: NetlinkMessage[] = [];
    for (let at = 0; at + HEAD_BYTES <= length; ) {
      const size = room.readUInt32LE(at);
      if (size < HEAD_BYTES) break;
      const body = room.subarray(at + HEAD_BYTES, at + size);
      messages.push({ type: room.readUInt16LE(at + 4), sequence: room.readUInt32LE(at + 8), body });
      at += padded(size);
    }
    return messages;
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }

  #send(requests: readonly NetlinkRequest[]): void {
    const bytes = Buffer.concat(requests.map((each) => message(each, this.#sequence++)));
    if (libc().send(this.#fd, pointerTo(bytes), BigInt(bytes.length), 0) < 0)
      throw new SystemError("send", errorNumber());
  }
}

/** Another network namespace, for requests that name it and for sockets in it. */
export class OtherNamespace implements Disposable {
  readonly fd: number;

  /** Throws Fault 500 when it is this thread's own. */
  constructor(readonly path: string) {
    this.fd = openSync(path, "r");
    const own = openSync(OWN_NAMESPACE, "r");
    const isOwn = fstatSync(own).ino === fstatSync(this.fd).ino;
    closeSync(own);
    if (!isOwn) return;
    closeSync(this.fd);
    throw new Fault(500, `${path} is the machine's own network namespace, not a sandbox's`);
  }

  /** A socket stays in the namespace where it was created; the thread enters it only for that call. */
  socket(): NetlinkSocket {
    return this.inside(() => new NetlinkSocket(NETLINK_ROUTE));
  }

  /** The thread is in the namespace until the work is done. */
  inside<T>(work: () => T): T {
    return visit(this.fd, work);
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

export function attribute(type: number, ...data: readonly Buffer[]): Buffer {
  const length = ATTRIBUTE_HEAD_BYTES + data.reduce((sum, each) => sum + each.length, 0);
  const bytes = Buffer.alloc(padded(length));
  bytes.writeUInt16LE(length, 0);
  bytes.writeUInt16LE(type, 2);
  let at = ATTRIBUTE_HEAD_BYTES;
  for (const each of data) at += each.copy(bytes, at);
  return bytes;
}

export function nested(type: number, ...attributes: readonly Buffer[]): Buffer {
  return attribute(type | NESTED, ...attributes);
}

export function attributesOf(bytes: Buffer): { type: number; data: Buffer; whole: Buffer }[] {
  const found: { type: number; data: Buffer; whole: Buffer }[] = [];
  for (let at = 0; at + ATTRIBUTE_HEAD_BYTES <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    if (length < ATTRIBUTE_HEAD_BYTES) break;
    const type = bytes.readUInt16LE(at + 2) & ~NESTED;
    const data = bytes.subarray(at + ATTRIBUTE_HEAD_BYTES, at + length);
    found.push({ type, data, whole: bytes.subarray(at, at + padded(length)) });
    at += padded(length);
  }
  return found;
}

/** The kernel's error number in the message that ends a list; undefined for an entry. */
export function endOfList({ type, body }: Pick<NetlinkMessage, "type" | "body">): number | undefined {
  if (type === NLMSG_ERROR) return -body.readInt32LE(0);
  return type === NLMSG_DONE ? 0 : undefined;
}

function message({ type, flags, body }: NetlinkRequest, sequence: number): Buffer {
  const bytes = Buffer.alloc(padded(HEAD_BYTES + body.length));
  bytes.writeUInt32LE(HEAD_BYTES + body.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt16LE(flags | NLM_REQUEST, 6);
  bytes.writeUInt32LE(sequence, 8);
  body.copy(bytes, HEAD_BYTES);
  return bytes;
}

function wordsOf(body: Buffer): string | undefined {
  const words = attributesOf(body.subarray(ACK_WORDS_AT)).find(({ type }) => type === ACK_WORDS);
  return words?.data.toString("latin1").replaceAll("\0", "");
}

function padded(length: number): number {
  return Math.ceil(length / 4) * 4;
}
