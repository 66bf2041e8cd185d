/** Which uploads count as archives, by their first bytes. */
import { expect, test } from "bun:test";
import { tarOf } from "../../base/testing/raw-tar.ts";
import { Fault } from "../../contract/fault.ts";
import { checkedArchive } from "./archive-check.ts";

function streamOf(bytes: Uint8Array, pieceBytes = bytes.length): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + pieceBytes));
      at += pieceBytes;
    },
  });
}

const NEVER = new AbortController().signal;
const all = async (stream: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(stream).arrayBuffer());
const statusOf = (work: Promise<unknown>) => work.then(() => 200).catch((error) => Fault.from(error).status);
const withoutMagic = tarOf({ a: "b" });
withoutMagic.fill(0, 257, 265);

test.each([
  ["a gzipped archive", Bun.gzipSync(tarOf({ a: "b" }))],
  ["a plain one", tarOf({ "folder/file": "content".repeat(300) })],
  ["an empty one", new Uint8Array(1024)],
] as [string, Uint8Array<ArrayBuffer>][])("%s passes unchanged, also byte by byte", async (_, bytes) => {
  expect(await all(await checkedArchive(streamOf(bytes), bytes.length, NEVER))).toEqual(bytes);
  expect(await all(await checkedArchive(streamOf(bytes, 7), undefined, NEVER))).toEqual(bytes);
});

test.each([
  ["nothing", new Uint8Array()],
  ["a text", Buffer.from("hello".repeat(200))],
  ["a zip archive", Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(600, 1)])],
  ["half a header", tarOf({ a: "b" }).slice(0, 300)],
  ["a header whose checksum is wrong", withoutMagic],
] as [string, Uint8Array<ArrayBuffer>][])("%s is refused", async (_, bytes) => {
  expect(await statusOf(checkedArchive(streamOf(bytes), undefined, NEVER))).toBe(400);
});

test.each([-1, 1])("an upload that differs from its announced length by %i byte fails at its end", async (off) => {
  const bytes = tarOf({ a: "b" });
  const archive = await checkedArchive(streamOf(bytes), bytes.length + off, NEVER);
  expect(await statusOf(all(archive))).toBe(400);
});

test("the check keeps no bytes that have passed", async () => {
  const MIB = 1024 ** 2;
  let isFirst = true;
  const long = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        // A page that was never written to uses no memory.
        controller.enqueue(new Uint8Array(MIB).fill(isFirst ? 0 : 1));
        isFirst = false;
      },
    },
    { highWaterMark: 0 },
  );
  const { signal } = new AbortController();
  const reader = (await checkedArchive(long, undefined, signal)).getReader();
  Bun.gc(true);
  const before = process.memoryUsage().rss;
  for (let read = 0; read < 200; read++) await reader.read();
  Bun.gc(true);
  expect((process.memoryUsage().rss - before) / MIB).toBeLessThan(100);
});

test("a stopped upload fails with the reason, also while it waits for bytes", async () => {
  const stop = new AbortController();
  const bytes = tarOf({ a: "b" });
  const slow = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(bytes) });
  const reading = all(await checkedArchive(slow, undefined, stop.signal));
  stop.abort(new Fault(503, "stopping"));
  expect(await statusOf(reading)).toBe(503);
});
