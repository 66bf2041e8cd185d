/**
 * ZMTP 3.0, the protocol of ZeroMQ, as far as a client of one Jupyter kernel needs it: greeting, READY, multi-frame
 * messages. The only mechanism is NULL, because the socket is a file that only root can open.
 */
import { Fault } from "../../contract/fault.ts";
import { KERNEL_MESSAGE_MAX_BYTES } from "../limits.ts";

export const KERNEL_MESSAGE_MAX_FRAMES = 64;
const GREETING_BYTES = 64;
const MORE = 1;
const LONG = 2;
const COMMAND = 4;
const LONG_HEAD_BYTES = 9;
const SHORT_MAX_BYTES = 255;
/** An oversized frame is skipped in pieces of this size. */
const SKIP_BYTES = 64 * 1024;

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

/** Reads the peer's messages from its bytes, in whatever pieces they come. Fault 500: not ZMTP. */
export class ZmtpReader {
  readonly #steps: Generator<number, never, Buffer>;
  /** Bytes needed for the next step. */
  #needs: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(onReady: () => void, onMessage: (message: Message) => void, maxBytes = KERNEL_MESSAGE_MAX_BYTES) {
    this.#steps = parse(onReady, onMessage, maxBytes);
    this.#needs = this.#steps.next().value;
  }

  take(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes < this.#needs) return;
    let rest = this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces);
    while (rest.length >= this.#needs) {
      const bytes = rest.subarray(0, this.#needs);
      rest = rest.subarray(this.#needs);
      this.#needs = this.#steps.next(bytes).value;
    }
    this.#pieces = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
  }
}

/** Yields the number of bytes that it needs next, and is given them. */
function* parse(
  onReady: () => void,
  onMessage: (message: Message) => void,
  maxBytes: number,
): Generator<number, never, Buffer> {
  requireGreeting(yield GREETING_BYTES);
  let frames: Buffer[] = [];
  let messageBytes = 0;
  for (;;) {
    const [flags = 0] = yield 1;
    if (flags > (MORE | LONG | COMMAND)) throw new Fault(500, `a frame of the kernel has unknown flags: ${flags}`);
    const isLong = (flags & LONG) !== 0;
    const length = isLong ? Number((yield 8).readBigUInt64BE()) : (yield 1).readUInt8();
    if (!Number.isSafeInteger(length)) throw new Fault(500, `a frame of the kernel has ${length} bytes`);
    if ((flags & COMMAND) !== 0) {
      if (length > maxBytes) throw new Fault(500, `a command of the kernel has ${length} bytes`);
      if ((yield length).toString("latin1", 0, 6) === "\x05READY") onReady();
      continue;
    }
    messageBytes += length;
    if (messageBytes > maxBytes) {
      // Drops the frame and the rest of its message.
      frames = [];
      for (let left = length; left > 0; left -= SKIP_BYTES) yield Math.min(left, SKIP_BYTES);
    } else {
      if (frames.length === KERNEL_MESSAGE_MAX_FRAMES) {
        throw new Fault(500, `a message of the kernel has more than ${KERNEL_MESSAGE_MAX_FRAMES} frames`);
      }
      frames.push(yield length);
    }
    if ((flags & MORE) !== 0) continue;
    onMessage(messageBytes > maxBytes ? { leftOutBytes: messageBytes } : { frames });
    frames = [];
    messageBytes = 0;
  }
}

function requireGreeting(bytes: Buffer): void {
  const mechanism = bytes.toString("latin1", 12, 32).replaceAll("\0", "");
  if (bytes[0] === 0xff && (bytes[9] ?? 0) % 2 === 1 && (bytes[10] ?? 0) >= 3 && mechanism === "NULL") return;
  throw new Fault(500, `the kernel's greeting is not that of ZMTP 3 without a mechanism: ${bytes.toString("hex")}`);
}
