/** When output counts as a flow, on real pipes, with a test clock. */
import { expect, test } from "bun:test";
import { closeSync } from "node:fs";
import { OUTPUT_GATHER_MS } from "../limits.ts";
import {
  OUTPUT_FLOWS_AFTER_READS,
  OUTPUT_FLOWS_AGAIN_AFTER_READS,
  PIPES_LARGE_MAX,
  ReadingPace,
} from "./reading-pace.ts";
import { openPipe } from "./system-calls.ts";

class Pipe implements Disposable {
  readonly #ends = openPipe();
  #nowMs = 0;
  readonly #pace = new ReadingPace(this.#ends.readEnd, () => this.#nowMs);

  [Symbol.dispose](): void {
    this.#pace[Symbol.dispose]();
    closeSync(this.#ends.readEnd);
    closeSync(this.#ends.writeEnd);
  }

  /** After so many reads, each after a wait of so long. */
  flowsAfter(reads: number, { waitMs = 0 } = {}): boolean {
    for (let at = 0; at < reads; at++) {
      this.#pace.noteAsked();
      this.#nowMs += waitMs;
      this.#pace.noteRead();
    }
    return this.#pace.isFlowing;
  }

  enlarge(): boolean {
    return this.#pace.enlarge();
  }
}

test("a few reads are no flow, many without a wait are", () => {
  using pipe = new Pipe();
  expect(pipe.flowsAfter(OUTPUT_FLOWS_AFTER_READS - 1)).toBe(false);
  expect(pipe.flowsAfter(1)).toBe(true);
});

test("output that comes now and then does not flow, also after much that came without a pause", () => {
  using pipe = new Pipe();
  expect(pipe.flowsAfter(10 * OUTPUT_FLOWS_AFTER_READS, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
  expect(pipe.flowsAfter(OUTPUT_FLOWS_AFTER_READS)).toBe(true);
  expect(pipe.flowsAfter(1, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
});

// Seen to fail with a pace that starts over at each wait: on a busy machine every reader waits now and then.
test("one wait among many reads without one changes nothing", () => {
  using pipe = new Pipe();
  pipe.flowsAfter(3 * OUTPUT_FLOWS_AFTER_READS);
  expect(pipe.flowsAfter(1, { waitMs: OUTPUT_GATHER_MS })).toBe(true);
  expect(pipe.flowsAfter(1, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
});

// Seen to fail with a pace that asks as much of it as at first.
test("what has flowed before flows again after few reads without a wait", () => {
  using pipe = new Pipe();
  pipe.flowsAfter(OUTPUT_FLOWS_AFTER_READS);
  pipe.enlarge();
  expect(pipe.flowsAfter(10, { waitMs: OUTPUT_GATHER_MS })).toBe(false);
  expect(pipe.flowsAfter(OUTPUT_FLOWS_AGAIN_AFTER_READS - 1)).toBe(false);
  expect(pipe.flowsAfter(1)).toBe(true);
});

test("no more pipes are made large than may be, and those that are gone make room", () => {
  {
    using pipes = new DisposableStack();
    for (let at = 0; at < PIPES_LARGE_MAX; at++) {
      const pipe = pipes.use(new Pipe());
      expect(pipe.flowsAfter(OUTPUT_FLOWS_AFTER_READS)).toBe(true);
      expect(pipe.enlarge()).toBe(true);
      expect(pipe.flowsAfter(1)).toBe(true);
    }
    const late = pipes.use(new Pipe());
    expect(late.flowsAfter(OUTPUT_FLOWS_AFTER_READS)).toBe(false);
    expect(late.enlarge()).toBe(false);
  }
  using after = new Pipe();
  expect(after.flowsAfter(OUTPUT_FLOWS_AFTER_READS)).toBe(true);
  expect(after.enlarge()).toBe(true);
});
