/** When a pipe is left to fill, on real pipes, with a clock of our own. */
import { expect, test } from "bun:test";
import { closeSync, readSync, writeSync } from "node:fs";
import {
  OUTPUT_GATHER_MS,
  OUTPUT_GATHERED_AFTER_READS,
  OUTPUT_READ_BYTES,
  OUTPUT_TOGETHER_MAX_BYTES,
  PIPES_LARGE_MAX,
} from "../limits.ts";
import { ReadingPace } from "./reading-pace.ts";
import { openPipe } from "./system-calls.ts";

/** The first read is never one that did not wait. */
const READS = OUTPUT_GATHERED_AFTER_READS + 1;

class Pipe implements Disposable {
  readonly #ends = openPipe();
  #nowMs = 0;
  readonly #pace = new ReadingPace(this.#ends.readEnd, () => this.#nowMs);

  [Symbol.dispose](): void {
    this.#pace[Symbol.dispose]();
    closeSync(this.#ends.readEnd);
    closeSync(this.#ends.writeEnd);
  }

  write(bytes: number): void {
    writeSync(this.#ends.writeEnd, new Uint8Array(bytes));
  }

  read(bytes: number): void {
    readSync(this.#ends.readEnd, new Uint8Array(bytes));
  }

  /** Whether more is read before something is handed over, after a read of so much. */
  readsOnAfter(bytes: number): boolean {
    this.#pace.noteRead(bytes);
    return this.#pace.readsOn;
  }

  /** Whether it is left to fill after so many reads, each after a wait of so long. */
  async isLeftToFill(reads: number, { waitMs = 0 } = {}): Promise<boolean> {
    let rest: Promise<void> | undefined;
    for (let at = 0; at < reads; at++) {
      this.#nowMs += waitMs;
      this.#pace.noteRead(1);
      rest = this.#pace.readsOn ? undefined : this.#pace.rest();
      await rest;
    }
    return rest !== undefined;
  }
}

test("a few reads are never put off, many without a wait are", async () => {
  using pipe = new Pipe();
  expect(await pipe.isLeftToFill(READS - 1)).toBe(false);
  expect(await pipe.isLeftToFill(1)).toBe(true);
});

test("output that comes now and then is read at once, also after much that came without a pause", async () => {
  using pipe = new Pipe();
  expect(await pipe.isLeftToFill(10 * READS, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
  expect(await pipe.isLeftToFill(READS)).toBe(true);
  expect(await pipe.isLeftToFill(1, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
});

// Seen to fail with a pace that judges by what was read: a read may be short for want of room.
test("as long as there is much in it, it is read at once", async () => {
  using pipe = new Pipe();
  pipe.write(OUTPUT_READ_BYTES);
  expect(await pipe.isLeftToFill(10 * READS)).toBe(false);
  pipe.read(1);
  expect(await pipe.isLeftToFill(1)).toBe(true);
});

// Seen to fail with a pace that begins anew at each wait: a busy machine makes everybody wait now and then.
test("one wait among many reads without one changes nothing", async () => {
  using pipe = new Pipe();
  await pipe.isLeftToFill(3 * READS);
  expect(await pipe.isLeftToFill(1, { waitMs: OUTPUT_GATHER_MS })).toBe(true);
  expect(await pipe.isLeftToFill(1, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
});

test("what can be read at once is handed over together, up to so much", async () => {
  using pipe = new Pipe();
  pipe.write(OUTPUT_READ_BYTES);
  expect(pipe.readsOnAfter(OUTPUT_READ_BYTES)).toBe(false);
  await pipe.isLeftToFill(READS);
  let reads = 1;
  while (pipe.readsOnAfter(OUTPUT_READ_BYTES)) reads++;
  expect(reads * OUTPUT_READ_BYTES).toBe(OUTPUT_TOGETHER_MAX_BYTES);
  expect(pipe.readsOnAfter(OUTPUT_READ_BYTES)).toBe(true);
  pipe.read(1);
  expect(pipe.readsOnAfter(OUTPUT_READ_BYTES)).toBe(false);
});

test("no more pipes are made large than may be, and those that are gone make room", async () => {
  {
    using pipes = new DisposableStack();
    for (let at = 0; at < PIPES_LARGE_MAX; at++) expect(await pipes.use(new Pipe()).isLeftToFill(READS)).toBe(true);
    expect(await pipes.use(new Pipe()).isLeftToFill(READS)).toBe(false);
  }
  using after = new Pipe();
  expect(await after.isLeftToFill(READS)).toBe(true);
});
