import { describe, expect, test } from "bun:test";
import { EDGE_WEBSOCKET_MESSAGE_MAX_BYTES } from "./limits.ts";
import { closeFrame, closeOf, FrameError, FrameReader, frame, isSendable, Opcode } from "./websocket-frame.ts";

/** As a server sends it: unmasked. */
function served(opcode: number, payload: string | Buffer, final = true): Buffer {
  const masked = frame(Opcode.Binary, Buffer.from(payload));
  const headBytes = masked.length - Buffer.from(payload).length - 4;
  const bytes = Buffer.concat([masked.subarray(0, headBytes), Buffer.from(payload)]);
  bytes[0] = (final ? 0x80 : 0) | opcode;
  bytes[1] = bytes.readUInt8(1) & 0x7f;
  return bytes;
}

function reading(): { seen: string[]; reader: FrameReader } {
  const seen: string[] = [];
  const note = (opcode: number, payload: Buffer) =>
    void seen.push(`${opcode}:${payload.length > 40 ? payload.length : payload.toString()}`);
  return { seen, reader: new FrameReader({ message: note, control: note }) };
}

const stream = Buffer.concat([
  served(Opcode.Text, "whole"),
  served(Opcode.Binary, ""),
  served(Opcode.Text, "in ", false),
  served(Opcode.Ping, "between"),
  served(Opcode.Continuation, "", false),
  served(Opcode.Continuation, "parts"),
  served(Opcode.Binary, Buffer.alloc(200)),
  served(Opcode.Binary, Buffer.alloc(70_000)),
  served(Opcode.Close, Buffer.from([0x0f, 0xa1, 0x62, 0x79, 0x65])),
]);
const MESSAGES = ["1:whole", "2:", "9:between", "1:in parts", "2:200", "2:70000"];

test.each([1, 2, 3, 7, 1000, stream.length])("frames are read from pieces of %d bytes", (size) => {
  const { seen, reader } = reading();
  for (let at = 0; at < stream.length; at += size) reader.push(stream.subarray(at, at + size));
  expect(seen.slice(0, -1)).toEqual(MESSAGES);
});

describe("a sandbox that breaks the protocol is found out", () => {
  test.each([
    ["a masked frame", frame(Opcode.Text, Buffer.from("x")), 1002],
    ["reserved bits", Buffer.from([0xc1, 0]), 1002],
    ["an unknown opcode", Buffer.from([0x83, 0]), 1002],
    ["an unknown control opcode", Buffer.from([0x8b, 0]), 1002],
    ["a continuation of nothing", served(Opcode.Continuation, "x"), 1002],
    ["a message within a message", Buffer.concat([served(1, "a", false), served(1, "b")]), 1002],
    ["a fragmented ping", served(Opcode.Ping, "x", false), 1002],
    ["a long ping", served(Opcode.Ping, Buffer.alloc(126)), 1002],
    ["an endless message", Buffer.from([0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 1009],
  ])("%s", (_name, bytes, closeCode) => {
    const { reader } = reading();
    const caught = (() => {
      try {
        reader.push(bytes);
      } catch (failure) {
        return failure;
      }
    })();
    expect(caught).toBeInstanceOf(FrameError);
    expect((caught as FrameError).closeCode).toBe(closeCode);
  });

  test("a message of endlessly many tiny fragments", () => {
    const { reader } = reading();
    reader.push(served(Opcode.Binary, "x", false));
    const fragment = served(Opcode.Continuation, "x", false);
    let count = 0;
    expect(() => {
      for (; count < EDGE_WEBSOCKET_MESSAGE_MAX_BYTES; count += 1) reader.push(fragment);
    }).toThrow(FrameError);
    expect(count).toBeLessThan(EDGE_WEBSOCKET_MESSAGE_MAX_BYTES / 100);
  });
});

test("close frames carry code and reason, or neither", () => {
  expect(closeOf(closeFrame(4001, "why").subarray(6))).toEqual({ code: 4001, reason: "why" });
  expect(closeOf(closeFrame(1005, "").subarray(6))).toEqual({ code: 1005, reason: "" });
  expect(() => closeOf(Buffer.from([3]))).toThrow(FrameError);
  expect(() => closeOf(Buffer.from([0x03, 0xee]))).toThrow(FrameError);
});

test.each([
  [1000, true],
  [1003, true],
  [1004, false],
  [1005, false],
  [1006, false],
  [1014, true],
  [1015, false],
  [2999, false],
  [3000, true],
  [4999, true],
  [5000, false],
])("close code %d may be sent: %p", (code, expected) => {
  expect(isSendable(code)).toBe(expected);
});
