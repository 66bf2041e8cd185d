import { expect, test } from "bun:test";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import type { Carried } from "./sandbox.ts";

/** A connection of the sandbox; `onGoOn` runs when it is read again. */
class Played implements Carried {
  readonly movedAt = 0;
  readonly isStalled = false;
  isStopped = false;

  constructor(readonly onGoOn: () => void = () => undefined) {}

  mayGoOn(): boolean {
    return true;
  }

  cut(): void {
    throw new Error("nobody is cut here");
  }

  stop(): void {
    this.isStopped = true;
  }

  goOn(): void {
    this.isStopped = false;
    this.onGoOn();
  }
}

test("a sandbox whose first connection uses up the share again is not read on the others", () => {
  const sandbox = smallSandbox();
  let isGreedy = true;
  const first = new Played(() => {
    if (isGreedy) sandbox.held(SHARE_BYTES);
  });
  const others = [new Played(), new Played()];
  for (const flow of [first, ...others]) sandbox.flows.add(flow);
  sandbox.held(SHARE_BYTES + 1);
  expect([first, ...others].map(({ isStopped }) => isStopped)).toEqual([true, true, true]);
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(true);
  expect([first, ...others].map(({ isStopped }) => isStopped)).toEqual([true, true, true]);
  isGreedy = false;
  sandbox.held(-SHARE_BYTES);
  expect(sandbox.isFull).toBe(false);
  expect([first, ...others].map(({ isStopped }) => isStopped)).toEqual([false, false, false]);
});
