import { expect, test } from "bun:test";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { SeededRandom } from "../base/testing/fuzz.ts";
import { SEED } from "../base/testing/seed.ts";
import { dnsMessages, framed } from "./dns-stream.ts";

async function read(pieces: readonly Buffer[], most = 100): Promise<string[]> {
  const stream = new PassThrough();
  for (const piece of pieces) stream.write(piece);
  stream.end();
  const found: string[] = [];
  for await (const message of dnsMessages(stream as unknown as Socket, most)) found.push(message.toString("latin1"));
  return found;
}

test("messages are the same in any pieces", async () => {
  const random = new SeededRandom(SEED);
  const messages = ["a", "b".repeat(100), "\0\0", "\x00\x01c"];
  const bytes = Buffer.concat(messages.map((message) => framed(Buffer.from(message, "latin1"))));
  expect(await read([bytes])).toEqual(messages);
  expect(await read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(messages);
  for (let round = 0; round < 100; round++) {
    const cuts = [0, random.below(bytes.length), random.below(bytes.length), bytes.length].sort(
      (one, other) => one - other,
    );
    const pieces = cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
    expect(await read(pieces.filter(({ length }) => length > 0))).toEqual(messages);
  }
});

test("an empty or too long message ends the stream, and a truncated one is dropped", async () => {
  const good = framed(Buffer.from("good"));
  expect(await read([good, Buffer.from([0, 0]), good])).toEqual(["good"]);
  expect(await read([good, framed(Buffer.alloc(101)), good])).toEqual(["good"]);
  expect(await read([good, good.subarray(0, 4)])).toEqual(["good"]);
  expect(await read([good, Buffer.from([0])])).toEqual(["good"]);
});
