/** When output counts as a flow, and how many pipes are made large for it. */
import { expect, test } from "bun:test";
import { closeSync, writeSync } from "node:fs";
import { openPipe } from "../../base/c-library.ts";
import { OUTPUT_GATHER_MS } from "../limits.ts";
import { OUTPUT_FLOWS_AFTER_READS, PIPES_LARGE_MAX, ReadingPace } from "./reading-pace.ts";
import { setNonBlocking } from "./system-calls.ts";

class Pipe implements Disposable {
  readonly #ends = openPipe();
  readonly #pace = new ReadingPace(this.#ends.readEnd);

  [Symbol.dispose](): void {
    this.#pace[Symbol.dispose]();
    closeSync(this.#ends.readEnd);
    closeSync(this.#ends.writeEnd);
  }

  /** After so many reads, each after a wait of so long. */
  flowsAfter(reads: number, waitMs = 0): boolean {
    for (let at = 0; at < reads; at++) {
      this.#pace.noteAsked();
      if (waitMs > 0) Bun.sleepSync(waitMs);
      this.#pace.noteRead();
    }
    return this.#pace.isFlowing;
  }

  /** How many bytes it takes. */
  enlarged(): number {
    this.#pace.enlarge();
    setNonBlocking(this.#ends.writeEnd);
    return writeSync(this.#ends.writeEnd, Buffer.alloc(4 * 1024 * 1024));
  }
}

// Guards against a pace that starts over at each wait: on a busy machine every reader waits now and then.
test("many reads without a wait are a flow, also with a wait among them; waiting reads are not", () => {
  using pipe = new Pipe();
  expect(pipe.flowsAfter(2 * OUTPUT_FLOWS_AFTER_READS, OUTPUT_GATHER_MS)).toBe(false);
  expect(pipe.flowsAfter(OUTPUT_FLOWS_AFTER_READS - 1)).toBe(false);
  expect(pipe.flowsAfter(3 * OUTPUT_FLOWS_AFTER_READS)).toBe(true);
  expect(pipe.flowsAfter(1, OUTPUT_GATHER_MS)).toBe(true);
  expect(pipe.flowsAfter(1, OUTPUT_GATHER_MS)).toBe(false);
});

test("the number of enlarged pipes is bounded, and closed ones free their places", () => {
  {
    using pipes = new DisposableStack();
    const sizes = Array.from({ length: PIPES_LARGE_MAX + 1 }, () => pipes.use(new Pipe()).enlarged());
    expect(sizes).toEqual([...Array(PIPES_LARGE_MAX).fill(1024 * 1024), 64 * 1024]);
  }
  using after = new Pipe();
  expect(after.enlarged()).toBe(1024 * 1024);
});
