/**
 * WebSocket frames (RFC 6455, section 5) on the connection between edge and sandbox, where the edge is the client.
 * No extensions are ever agreed, so the reserved bits must be zero.
 */
import { EDGE_WEBSOCKET_FRAGMENT_OVERHEAD_BYTES, EDGE_WEBSOCKET_MESSAGE_MAX_BYTES } from "./limits.ts";

export const Opcode = { Continuation: 0, Text: 1, Binary: 2, Close: 8, Ping: 9, Pong: 10 } as const;
export type Opcode = (typeof Opcode)[keyof typeof Opcode];

export const CloseCode = {
  ProtocolError: 1002,
  NoCode: 1005,
  InvalidText: 1007,
  TooBig: 1009,
  TryAgainLater: 1013,
} as const;

const FIN = 0x80;
const MASKED = 0x80;
const RESERVED = 0x70;
const MASK_BYTES = 4;
const CONTROL_PAYLOAD_MAX_BYTES = 125;

/** What a reader finds, in order. */
export interface FrameSink {
  message(opcode: typeof Opcode.Text | typeof Opcode.Binary, payload: Buffer): void;
  control(opcode: typeof Opcode.Close | typeof Opcode.Ping | typeof Opcode.Pong, payload: Buffer): void;
}

/** The sandbox broke the protocol or a limit; `closeCode` says which. */
export class FrameError extends Error {
  override readonly name = "FrameError";
  readonly closeCode: number;

  constructor(closeCode: number, message: string) {
    super(message);
    this.closeCode = closeCode;
  }
}

/** One unfragmented frame, masked with zeros: nobody sits between edge and sandbox whom a mask would protect. */
export function frame(opcode: Opcode, payload: Uint8Array): Buffer {
  const { length } = payload;
  const lengthBytes = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const bytes = Buffer.allocUnsafe(2 + lengthBytes + MASK_BYTES + length);
  bytes[0] = FIN | opcode;
  bytes[1] = MASKED | (lengthBytes === 0 ? length : lengthBytes === 2 ? 126 : 127);
  if (lengthBytes === 2) bytes.writeUInt16BE(length, 2);
  if (lengthBytes === 8) bytes.writeBigUInt64BE(BigInt(length), 2);
  bytes.writeUInt32BE(0, 2 + lengthBytes);
  bytes.set(payload, 2 + lengthBytes + MASK_BYTES);
  return bytes;
}

export function closeFrame(code: number, reason: string): Buffer {
  if (code === CloseCode.NoCode) return frame(Opcode.Close, new Uint8Array());
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
  payload.writeUInt16BE(code);
  payload.write(reason, 2);
  return frame(Opcode.Close, payload.subarray(0, CONTROL_PAYLOAD_MAX_BYTES));
}

/** Code and reason of a close frame's payload. */
export function closeOf(payload: Buffer): { code: number; reason: string } {
  if (payload.length === 0) return { code: CloseCode.NoCode, reason: "" };
  const code = payload.length === 1 ? 0 : payload.readUInt16BE();
  if (!isSendable(code)) throw new FrameError(CloseCode.ProtocolError, "close frame without a valid code");
  return { code, reason: payload.toString("utf8", 2) };
}

/** Codes that may stand in a close frame; the others only describe how a connection ended. */
export function isSendable(code: number): boolean {
  if (code >= 3000 && code <= 4999) return true;
  return code >= 1000 && code <= 1014 && (code < 1004 || code > 1006);
}

interface FrameHead {
  final: boolean;
  opcode: number;
  length: number;
}

/** Puts frames together from a byte stream, and messages from frames. Keeps at most one message. */
export class FrameReader {
  readonly #sink: FrameSink;
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  #head: FrameHead | undefined;
  #fragments: Buffer[] = [];
  #messageBytes = 0;
  #messageOpcode: typeof Opcode.Text | typeof Opcode.Binary | undefined;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  push(bytes: Buffer): void {
    this.#unread.push(bytes);
    this.#unreadBytes += bytes.length;
    for (;;) {
      this.#head ??= this.#readHead();
      if (this.#head === undefined || this.#unreadBytes < this.#head.length) return;
      const head = this.#head;
      this.#head = undefined;
      this.#deliver(head, this.#take(head.length));
    }
  }

  #readHead(): FrameHead | undefined {
    if (this.#unreadBytes < 2) return undefined;
    const start = this.#peek(2);
    const flags = start.readUInt8(0);
    const shortLength = start.readUInt8(1);
    const headBytes = shortLength === 126 ? 4 : shortLength === 127 ? 10 : 2;
    if (this.#unreadBytes < headBytes) return undefined;
    if ((flags & RESERVED) !== 0) throw new FrameError(CloseCode.ProtocolError, "reserved bits are set");
    if ((shortLength & MASKED) !== 0) throw new FrameError(CloseCode.ProtocolError, "a server's frame is masked");
    const bytes = this.#take(headBytes);
    const length = headBytes === 2 ? shortLength : headBytes === 4 ? bytes.readUInt16BE(2) : longLength(bytes);
    const head = { final: (flags & FIN) !== 0, opcode: flags & 0x0f, length };
    this.#check(head);
    return head;
  }

  #check({ final, opcode, length }: FrameHead): void {
    if (opcode >= Opcode.Close) {
      const known = opcode <= Opcode.Pong;
      if (known && final && length <= CONTROL_PAYLOAD_MAX_BYTES) return;
      throw new FrameError(CloseCode.ProtocolError, "malformed control frame");
    }
    const inMessage = this.#messageOpcode !== undefined;
    if (opcode > Opcode.Binary || (opcode === Opcode.Continuation) !== inMessage) {
      throw new FrameError(CloseCode.ProtocolError, "frame out of order");
    }
    if (this.#messageBytes + length > EDGE_WEBSOCKET_MESSAGE_MAX_BYTES) {
      throw new FrameError(CloseCode.TooBig, "message too big");
    }
  }

  #deliver({ final, opcode }: FrameHead, payload: Buffer): void {
    if (opcode === Opcode.Close || opcode === Opcode.Ping || opcode === Opcode.Pong) {
      this.#sink.control(opcode, payload);
      return;
    }
    if (opcode === Opcode.Text || opcode === Opcode.Binary) this.#messageOpcode = opcode;
    if (final && this.#fragments.length === 0) {
      this.#complete(payload);
      return;
    }
    this.#fragments.push(payload);
    this.#messageBytes += payload.length + EDGE_WEBSOCKET_FRAGMENT_OVERHEAD_BYTES;
    if (final) this.#complete(Buffer.concat(this.#fragments));
  }

  #complete(payload: Buffer): void {
    const opcode = this.#messageOpcode ?? Opcode.Binary;
    this.#messageOpcode = undefined;
    this.#fragments = [];
    this.#messageBytes = 0;
    this.#sink.message(opcode, payload);
  }

  #peek(count: number): Buffer {
    const first = this.#unread[0];
    if (first !== undefined && first.length >= count) return first;
    this.#unread = [Buffer.concat(this.#unread)];
    return this.#unread[0] ?? Buffer.alloc(0);
  }

  #take(count: number): Buffer {
    if (count === 0) return Buffer.alloc(0);
    const first = this.#peek(count);
    if (first.length === count) this.#unread.shift();
    else this.#unread[0] = first.subarray(count);
    this.#unreadBytes -= count;
    return first.subarray(0, count);
  }
}

function longLength(head: Buffer): number {
  const length = head.readBigUInt64BE(2);
  return length > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(length);
}
