import { expect, test } from "bun:test";
import { constants, gunzipSync, inflateRawSync } from "node:zlib";
import { timed } from "../../base/testing/timed.ts";
import { gzip } from "./gzip.ts";

const CHUNK_BYTES = 256 * 1024;
const GZIP_HEAD_BYTES = 10;

function random(bytes: number): Buffer<ArrayBuffer> {
  const content = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += 65_536) crypto.getRandomValues(content.subarray(at, at + 65_536));
  return content;
}

function text(bytes: number): Buffer {
  return Buffer.alloc(bytes, "The same again, and again. ");
}

async function* chunksOf(content: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += CHUNK_BYTES) yield content.subarray(at, at + CHUNK_BYTES);
}

async function packed(content: Uint8Array): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(gzip(chunksOf(content))));
}

const dense = random(3 * CHUNK_BYTES + 5);
const contents: [string, Buffer][] = [
  ["nothing", Buffer.of()],
  ["a byte", Buffer.of(7)],
  ["text", text(5 * CHUNK_BYTES + 1)],
  ["compressed data", dense],
  ["both in turn", Buffer.concat([text(CHUNK_BYTES), dense, text(2 * CHUNK_BYTES), dense, text(9)])],
];

test.each(contents)("%s is decompressed byte for byte", async (_what, content) => {
  expect(gunzipSync(await packed(content)).equals(content)).toBe(true);
});

test.each(contents)("%s is one gzip member", async (_what, content) => {
  // Stops where the first member ends.
  const first = inflateRawSync((await packed(content)).subarray(GZIP_HEAD_BYTES), {
    finishFlush: constants.Z_SYNC_FLUSH,
  });
  expect(first.equals(content)).toBe(true);
});

test("text shrinks, and compressed data hardly grows", async () => {
  expect((await packed(text(CHUNK_BYTES))).length).toBeLessThan(CHUNK_BYTES / 20);
  expect((await packed(dense)).length).toBeLessThan(dense.length * 1.001 + 100);
});

timed("compressed data takes a fraction of the time of compression", async () => {
  const content = random(32 * CHUNK_BYTES);
  const ways = {
    ours: () => packed(content),
    plain: () => new Response(new Blob([content]).stream().pipeThrough(new CompressionStream("gzip"))).bytes(),
  };
  // The best of some rounds each, in turn: other work on the machine may delay one of them, not all.
  const best = { ours: Infinity, plain: Infinity };
  for (let round = 0; round < 5; round++) {
    for (const way of ["ours", "plain"] as const) {
      const from = performance.now();
      await ways[way]();
      best[way] = Math.min(best[way], performance.now() - from);
    }
  }
  expect(best.plain / best.ours).toBeGreaterThan(5);
});

test("a cancelled reader ends the compression", async () => {
  let isOver = false;
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield text(CHUNK_BYTES);
    } finally {
      isOver = true;
    }
  }
  for await (const _part of gzip(endless())) break;
  expect(isOver).toBe(true);
});

test("a failing source fails the reader", async () => {
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield text(10);
    throw new Error("the disk is gone");
  }
  await expect(Array.fromAsync(gzip(failing()))).rejects.toThrow("the disk is gone");
});
