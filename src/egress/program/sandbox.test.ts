import { expect, test } from "bun:test";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import type { Relayed } from "./sandbox.ts";

/** A connection of the sandbox; `onResume` runs when it is read again. */
class FakeFlow implements Relayed {
  readonly movedAt = 0;
  readonly isStalled = false;
  isPaused = false;

  constructor(readonly onResume: () => void = () => undefined) {}

  isAllowed(): boolean {
    return true;
  }

  cut(): void {
    throw new Error("nobody is cut here");
  }

  pauseForShare(): void {
    this.isPaused = true;
  }

  resumeForShare(): void {
    this.isPaused = false;
    this.onResume();
  }
}

test("a sandbox whose first connection uses up the share again is not read on the others", () => {
  const sandbox = smallSandbox();
  let isGreedy = true;
  const first = new FakeFlow(() => {
    if (isGreedy) sandbox.held(SHARE_BYTES);
  });
  const others = [new FakeFlow(), new FakeFlow()];
  for (const flow of [first, ...others]) sandbox.flows.add(flow);
  sandbox.held(SHARE_BYTES + 1);
  expect([first, ...others].map(({ isPaused }) => isPaused)).toEqual([true, true, true]);
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(true);
  expect([first, ...others].map(({ isPaused }) => isPaused)).toEqual([true, true, true]);
  isGreedy = false;
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(false);
  expect([first, ...others].map(({ isPaused }) => isPaused)).toEqual([false, false, false]);
});
