/**
 * ZMTP 3.0, the protocol of ZeroMQ, as far as a client of one Jupyter kernel needs it: greeting, READY, multi-frame
 * messages. The only mechanism is NULL, because the socket is a file that only root can open.
 */
import { Fault } from "../../contract/fault.ts";
import { KERNEL_MESSAGE_MAX_BYTES, KERNEL_MESSAGE_MAX_FRAMES } from "../limits.ts";

const GREETING_BYTES = 64;
const MORE = 1;
const LONG = 2;
const COMMAND = 4;
const SHORT_HEAD_BYTES = 2;
const LONG_HEAD_BYTES = 9;
const SHORT_MAX_BYTES = 255;

export type SocketType = "DEALER" | "SUB";

/** Frames of one message, or the size of a message that was too large and is dropped. */
export type Message = { frames: Buffer[] } | { leftOutBytes: number };

/** The first bytes of a connection. */
export function greeting(): Buffer {
  const bytes = Buffer.alloc(GREETING_BYTES);
  bytes[0] = 0xff;
  bytes[9] = 0x7f;
  bytes[10] = 3;
  bytes.write("NULL", 12, "latin1");
  return bytes;
}

/** Sent after the greeting. */
export function ready(type: SocketType): Buffer {
  const body = [
    named("\x05READY"),
    property("Socket-Type", type),
    ...(type === "DEALER" ? [property("Identity", "")] : []),
  ];
  return frame(Buffer.concat(body), COMMAND);
}

function named(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

function property(name: string, value: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(value.length);
  return Buffer.concat([Buffer.from([name.length]), named(name), length, named(value)]);
}

export function message(frames: readonly Uint8Array[]): Buffer {
  return Buffer.concat(frames.map((bytes, at) => frame(bytes, at < frames.length - 1 ? MORE : 0)));
}

function frame(body: Uint8Array, flags: number): Buffer {
  if (body.length <= SHORT_MAX_BYTES) return Buffer.concat([Buffer.from([flags, body.length]), body]);
  const head = Buffer.alloc(LONG_HEAD_BYTES);
  head[0] = flags | LONG;
  head.writeBigUInt64BE(BigInt(body.length), 1);
  return Buffer.concat([head, body]);
}

/** Parses the peer's bytes, in whatever pieces they come. Fault 500: not ZMTP. */
export class ZmtpReader {
  #isGreeted = false;
  /** Unparsed pieces and their total size. */
  #pieces: Buffer[] = [];
  #bytes = 0;
  /** Bytes needed for the next parsing step. */
  #needs = GREETING_BYTES;
  #frames: Buffer[] = [];
  #framesBytes = 0;
  /** Bytes of an oversized frame still to skip. */
  #skip = 0;
  #leftOutBytes = 0;
  #isLast = true;

  constructor(
    private readonly onReady: () => void,
    private readonly onMessage: (message: Message) => void,
    private readonly maxBytes: number = KERNEL_MESSAGE_MAX_BYTES,
  ) {}

  take(piece: Buffer): void {
    let rest = piece;
    if (this.#skip > 0) {
      const skipped = Math.min(this.#skip, rest.length);
      this.#skip -= skipped;
      if (this.#skip > 0) return;
      rest = rest.subarray(skipped);
      this.#endLeftOut();
    }
    this.#pieces.push(rest);
    this.#bytes += rest.length;
    if (this.#bytes < this.#needs) return;
    let bytes = this.#pieces.length === 1 ? rest : Buffer.concat(this.#pieces);
    for (;;) {
      const used = this.#isGreeted ? this.#frame(bytes) : this.#greet(bytes);
      if (used === 0) break;
      bytes = bytes.subarray(used);
    }
    this.#pieces = bytes.length === 0 ? [] : [bytes];
    this.#bytes = bytes.length;
  }

  #greet(bytes: Buffer): number {
    if (bytes.length < GREETING_BYTES) return 0;
    const mechanism = bytes.toString("latin1", 12, 32).replaceAll("\0", "");
    if (bytes[0] !== 0xff || (bytes[9] ?? 0) % 2 !== 1 || (bytes[10] ?? 0) < 3 || mechanism !== "NULL") {
      throw new Fault(500, `the kernel's greeting is not that of ZMTP 3 without a mechanism: ${bytes.toString("hex")}`);
    }
    this.#isGreeted = true;
    return GREETING_BYTES;
  }

  /** Returns the number of bytes used; 0: it needs more. */
  #frame(bytes: Buffer): number {
    this.#needs = SHORT_HEAD_BYTES;
    if (bytes.length < SHORT_HEAD_BYTES) return 0;
    const flags = bytes[0] ?? 0;
    if (flags > (MORE | LONG | COMMAND)) throw new Fault(500, `a frame of the kernel has unknown flags: ${flags}`);
    const head = (flags & LONG) === 0 ? SHORT_HEAD_BYTES : LONG_HEAD_BYTES;
    this.#needs = head;
    if (bytes.length < head) return 0;
    const long = head === LONG_HEAD_BYTES ? bytes.readBigUInt64BE(1) : BigInt(bytes[1] ?? 0);
    if (long > BigInt(Number.MAX_SAFE_INTEGER)) throw new Fault(500, `a frame of the kernel has ${long} bytes`);
    const length = Number(long);
    if ((flags & COMMAND) !== 0) return this.#command(bytes, head, length);
    const isLast = (flags & MORE) === 0;
    if (this.#leftOutBytes > 0 || this.#framesBytes + length > this.maxBytes) {
      return this.#leaveOut(bytes, head, length, isLast);
    }
    this.#needs = head + length;
    if (bytes.length < head + length) return 0;
    if (this.#frames.length === KERNEL_MESSAGE_MAX_FRAMES) {
      throw new Fault(500, `a message of the kernel has more than ${KERNEL_MESSAGE_MAX_FRAMES} frames`);
    }
    this.#frames.push(bytes.subarray(head, head + length));
    this.#framesBytes += length;
    this.#needs = SHORT_HEAD_BYTES;
    if (isLast) this.#endMessage({ frames: this.#frames });
    return head + length;
  }

  #command(bytes: Buffer, head: number, length: number): number {
    if (length > this.maxBytes) throw new Fault(500, `a command of the kernel has ${length} bytes`);
    this.#needs = head + length;
    if (bytes.length < head + length) return 0;
    if (bytes.toString("latin1", head, head + 6) === "\x05READY") this.onReady();
    this.#needs = SHORT_HEAD_BYTES;
    return head + length;
  }

  /** Drops the frame and the rest of its message. */
  #leaveOut(bytes: Buffer, head: number, length: number, isLast: boolean): number {
    this.#leftOutBytes += this.#framesBytes + length;
    this.#frames = [];
    this.#framesBytes = 0;
    this.#isLast = isLast;
    this.#needs = SHORT_HEAD_BYTES;
    const here = Math.min(bytes.length - head, length);
    this.#skip = length - here;
    if (this.#skip === 0) this.#endLeftOut();
    return head + here;
  }

  #endLeftOut(): void {
    if (this.#isLast) this.#endMessage({ leftOutBytes: this.#leftOutBytes });
  }

  #endMessage(ended: Message): void {
    this.#frames = [];
    this.#framesBytes = 0;
    this.#leftOutBytes = 0;
    this.onMessage(ended);
  }
}
