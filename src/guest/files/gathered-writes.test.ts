import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GatheredWrites, UPLOAD_PIECE_OVERHEAD_BYTES, UPLOAD_WAITING_MAX_BYTES } from "./gathered-writes.ts";

const folder = mkdtempSync(join(tmpdir(), "gathered-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Takes so many bytes with each call at most, and only when it is let. */
class SlowFile {
  readonly written: Buffer[] = [];
  calls = 0;
  readonly #most: number;
  #allow = Promise.withResolvers<void>();

  constructor(most: number) {
    this.#most = most;
  }

  get handle(): FileHandle {
    return {
      write: (piece: Uint8Array) => this.#take([piece]),
      writev: (pieces: Uint8Array[]) => this.#take(pieces),
    } as unknown as FileHandle;
  }

  allow(): void {
    this.#allow.resolve();
  }

  async #take(pieces: Uint8Array[]): Promise<{ bytesWritten: number }> {
    this.calls += 1;
    await this.#allow.promise;
    const taken = Buffer.concat(pieces).subarray(0, this.#most);
    this.written.push(taken);
    return { bytesWritten: taken.length };
  }
}

test("pieces of all lengths are in the file in their order when it is finished", async () => {
  const path = join(folder, "ordered");
  await using file = await open(path, "w");
  const writes = new GatheredWrites(file);
  const pieces = Array.from({ length: 300 }, (_, nth) => new Uint8Array((nth * 7919) % 60_000).fill(nth));
  const expected = Buffer.concat(pieces);
  for (const piece of pieces) await writes.take(piece);
  await writes.finish();
  expect(readFileSync(path).equals(expected)).toBe(true);
});

test.each([1, 3, 4, 5, 100])("with %d bytes taken at a time, none is lost and none is written twice", async (most) => {
  const file = new SlowFile(most);
  const writes = new GatheredWrites(file.handle);
  for (const text of ["ab", "", "cdef", "g", "hij"]) await writes.take(Buffer.from(text));
  file.allow();
  await writes.finish();
  expect(Buffer.concat(file.written).toString()).toBe("abcdefghij");
});

test("what comes while a write is under way goes together", async () => {
  const file = new SlowFile(1000);
  const writes = new GatheredWrites(file.handle);
  for (let nth = 0; nth < 10; nth += 1) await writes.take(Buffer.from(`${nth}`));
  file.allow();
  await writes.finish();
  expect([file.calls, file.written.map(String)]).toEqual([2, ["0", "123456789"]]);
});

test.each([
  ["bytes", 1, UPLOAD_WAITING_MAX_BYTES],
  ["pieces", UPLOAD_WAITING_MAX_BYTES / UPLOAD_PIECE_OVERHEAD_BYTES, 1],
])("who brings more %s than may wait is held back", async (_, count, bytes) => {
  const file = new SlowFile(Number.POSITIVE_INFINITY);
  const writes = new GatheredWrites(file.handle);
  await writes.take(new Uint8Array(1));
  let isTaken = false;
  const bring = async () => {
    for (let nth = 0; nth < count; nth += 1) await writes.take(new Uint8Array(bytes));
  };
  const taking = bring().then(() => {
    isTaken = true;
  });
  await Bun.sleep(1);
  expect(isTaken).toBe(false);
  file.allow();
  await taking;
  await writes.finish();
});

test("what could not be written is told by the next call, and by each after that", async () => {
  await using full = await open("/dev/full", "w");
  const writes = new GatheredWrites(full);
  await writes.take(new Uint8Array(10));
  await writes.settle();
  await expect(writes.take(new Uint8Array(10))).rejects.toThrow("ENOSPC");
  await expect(writes.finish()).rejects.toThrow("ENOSPC");
});

test("what could not be written is told at the end if nothing comes behind it", async () => {
  await using full = await open("/dev/full", "w");
  const writes = new GatheredWrites(full);
  await writes.take(new Uint8Array(10));
  await expect(writes.finish()).rejects.toThrow("ENOSPC");
});
