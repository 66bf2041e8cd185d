import { describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { greeting, KERNEL_MESSAGE_MAX_FRAMES, type Message, message, ready, ZmtpReader } from "./zmtp.ts";

const MAX_BYTES = 1024 * 1024;

interface Read {
  messages: string[][];
  leftOut: number[];
  isReady: boolean;
}

/** The reader's result for these bytes, given in pieces of this size. */
function read(bytes: Buffer, pieceBytes = bytes.length): Read {
  const found: Read = { messages: [], leftOut: [], isReady: false };
  const take = (message: Message) => {
    if ("leftOutBytes" in message) found.leftOut.push(message.leftOutBytes);
    else found.messages.push(message.frames.map((frame) => frame.toString()));
  };
  const reader = new ZmtpReader(
    () => {
      found.isReady = true;
    },
    take,
    MAX_BYTES,
  );
  for (let at = 0; at < bytes.length; at += pieceBytes) reader.take(bytes.subarray(at, at + pieceBytes));
  return found;
}

const begin = Buffer.concat([greeting(), ready("DEALER")]);
const frames = (...texts: string[]) => message(texts.map((text) => Buffer.from(text)));
const long = "é".repeat(40_000);

function longHead(flags: number, length: bigint): Buffer {
  const head = Buffer.alloc(9);
  head[0] = flags;
  head.writeBigUInt64BE(length, 1);
  return head;
}

describe("a reader", () => {
  test.each([1, 2, 3, 7, 64, 65, 1000, 1_000_000])("reads messages that come in pieces of %d bytes", (pieceBytes) => {
    const bytes = Buffer.concat([begin, frames("a", "", "b".repeat(255)), frames(long), frames("c".repeat(256), "d")]);
    const found = read(bytes, pieceBytes);
    expect(found.isReady).toBe(true);
    expect(found.messages).toEqual([["a", "", "b".repeat(255)], [long], ["c".repeat(256), "d"]]);
  });

  test("skips commands between messages", () => {
    const ping = Buffer.concat([Buffer.from([4, 5]), Buffer.from("\x04PING")]);
    expect(read(Buffer.concat([begin, frames("a"), ping, frames("b")])).messages).toEqual([["a"], ["b"]]);
  });

  test("skips a message that is too large, and continues after it", () => {
    const size = MAX_BYTES + 1;
    const huge = Buffer.concat([longHead(3, BigInt(size)), Buffer.alloc(size), frames("tail")]);
    const found = read(Buffer.concat([begin, frames("a"), huge, frames("b")]), 64 * 1024);
    expect(found.messages).toEqual([["a"], ["b"]]);
    expect(found.leftOut).toEqual([size + 4]);
  });

  test("counts all frames of a message against its bound", () => {
    const half = Buffer.alloc(MAX_BYTES / 2);
    const huge = message([half, half, Buffer.from("x")]);
    const found = read(Buffer.concat([begin, huge, frames("b")]), 64 * 1024);
    expect(found).toEqual({ messages: [["b"]], leftOut: [MAX_BYTES + 1], isReady: true });
  });

  const { 0: tooMany } = [frames(...Array.from({ length: KERNEL_MESSAGE_MAX_FRAMES + 1 }, String))];
  const otherMechanism = greeting();
  otherMechanism.write("PLAIN", 12, "latin1");
  const older = greeting();
  older[10] = 2;
  test.each([
    ["no greeting at all", Buffer.from("HTTP/1.1 400 Bad Request\r\n".repeat(4))],
    ["another mechanism", otherMechanism],
    ["an older version", older],
    ["unknown flags", Buffer.concat([begin, Buffer.from([8, 0])])],
    ["a frame of more bytes than there are numbers", Buffer.concat([begin, longHead(2, 2n ** 63n)])],
    ["a command without an end", Buffer.concat([begin, longHead(6, 2n ** 40n)])],
    ["a message without an end", Buffer.concat([begin, tooMany])],
  ])("refuses %s", (_, bytes) => {
    expect(() => read(bytes)).toThrow(Fault);
  });
});

test("sent bytes follow the protocol", () => {
  expect(greeting().toString("hex")).toBe(`ff00000000000000007f03004e554c4c${"0".repeat(96)}`);
  expect(ready("SUB").toString("latin1")).toBe("\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB");
  expect(ready("DEALER").toString("latin1")).toBe(
    "\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0",
  );
});
