import { expect, test } from "bun:test";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import { BOUNDS } from "./bounds.ts";
import type { RelayedFlow, SandboxTraffic } from "./sandbox-traffic.ts";

/** A connection of the sandbox; `onResume` runs when it is read again. */
class FakeFlow implements RelayedFlow {
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

test("floods of requests and connections to names with rules are delayed up to a bound, and fail beyond it", () => {
  const { interceptedBurst, ruledBurst } = BOUNDS;
  for (const [burst, next] of [
    [ruledBurst, (sandbox: SandboxTraffic) => sandbox.ruledDelayMs()],
    [interceptedBurst, (sandbox: SandboxTraffic) => sandbox.interceptedDelayMs()],
  ] as const) {
    const sandbox = smallSandbox({ ruledPerSecond: 0.001, interceptedPerSecond: 0.001 });
    const delays = Array.from({ length: 2 * burst + 1 }, () => next(sandbox));
    expect(delays.slice(0, burst).every((delayMs) => delayMs === 0)).toBe(true);
    expect(delays.slice(burst, -1).every((delayMs) => delayMs !== undefined && delayMs > 0)).toBe(true);
    expect(delays.at(-1)).toBeUndefined();
  }
});
