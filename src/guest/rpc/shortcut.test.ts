/** Envelopes of a service among those of the library: in order, one at a time, and without waiting for ever. */
import { expect, test } from "bun:test";
import { Shortcut } from "./shortcut.ts";

const piece = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

async function read(stream: AsyncGenerator<Uint8Array>): Promise<string> {
  return (await Array.fromAsync(stream)).map(text).join(" ");
}

test("what the library makes and what is given keep the order in which they were made", async () => {
  const shortcut = new Shortcut();
  async function* service() {
    yield piece("start");
    await shortcut.give(piece("one"));
    await shortcut.give(piece("two"));
    yield piece("keepalive");
    await Bun.sleep(1);
    await shortcut.give(piece("three"));
    yield piece("end");
  }
  expect(await read(shortcut.joined(service()))).toBe("start one two keepalive three end");
});

test("a service goes on only when what it gave was taken", async () => {
  const shortcut = new Shortcut();
  const given: number[] = [];
  async function* service() {
    for (let at = 0; at < 3; at++) {
      given.push(at);
      await shortcut.give(piece(String(at)));
    }
    yield piece("end");
  }
  const stream = shortcut.joined(service());
  expect(text((await stream.next()).value ?? undefined)).toBe("0");
  await Bun.sleep(5);
  expect(given.length).toBeLessThanOrEqual(2);
  expect(await read(stream)).toBe("1 2 end");
});

test("a failure of the library comes behind what was given before it", async () => {
  const shortcut = new Shortcut();
  // biome-ignore lint/correctness/useYield: it fails before it has made anything.
  async function* service(): AsyncGenerator<Uint8Array> {
    await shortcut.give(piece("one"));
    throw new Error("broken");
  }
  const stream = shortcut.joined(service());
  expect(text((await stream.next()).value ?? undefined)).toBe("one");
  expect(stream.next()).rejects.toThrow("broken");
});

// Seen to fail with a close that forgets the one who gives: its process would be held back for ever.
test("who gives to a client that is gone does not wait", async () => {
  const shortcut = new Shortcut();
  const waiting = shortcut.give(piece("lost"));
  shortcut.close();
  await waiting;
  expect(shortcut.give(piece("lost as well"))).toBeUndefined();
});

test("a stream of many pieces leaves nothing behind for each", async () => {
  const shortcut = new Shortcut();
  async function* service() {
    for (let at = 0; at < 20_000; at++) await shortcut.give(piece("x"));
    yield piece("end");
  }
  let pieces = 0;
  for await (const _ of shortcut.joined(service())) pieces++;
  expect(pieces).toBe(20_001);
});
