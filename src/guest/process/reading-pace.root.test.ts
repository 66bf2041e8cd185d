/** When a pipe is left to fill, on real pipes, with a clock of our own. */
import { expect, test } from "bun:test";
import { closeSync } from "node:fs";
import { OUTPUT_GATHER_MS, OUTPUT_GATHERED_AFTER_READS, OUTPUT_READ_BYTES, PIPES_LARGE_MAX } from "../limits.ts";
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

  /** Whether it is left to fill after reads of so many bytes, each after a wait of so long. */
  async isLeftToFill(reads: number, { bytes = 1, waitMs = 0 } = {}): Promise<boolean> {
    let rest: Promise<void> | undefined;
    for (let at = 0; at < reads; at++) {
      this.#nowMs += waitMs;
      this.#pace.noteRead(bytes);
      rest = this.#pace.rest();
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

test("a read that took all it could is followed by another one at once", async () => {
  using pipe = new Pipe();
  expect(await pipe.isLeftToFill(10 * READS, { bytes: OUTPUT_READ_BYTES })).toBe(false);
  expect(await pipe.isLeftToFill(1)).toBe(true);
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
