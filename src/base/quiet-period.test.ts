import { expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";
import { QuietPeriod } from "./quiet-period.ts";
import { ManualClock } from "./testing/manual-clock.ts";

const MAX_MS = 100;

/** A few turns of the event loop, so that everything that can proceed by itself has done so. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

function setUp() {
  const clock = new ManualClock(0);
  const quietPeriod = new QuietPeriod(clock, MAX_MS);
  let finished = 0;
  const wait = () => void quietPeriod.wait().then(() => finished++);
  const begin = () => {
    const end = Promise.withResolvers<void>();
    const done = quietPeriod.run(() => end.promise);
    return { end, done };
  };
  return { clock, quietPeriod, begin, wait, came: () => finished };
}

test("background work begins at once while no foreground work runs", async () => {
  const { wait, came, clock } = setUp();
  wait();
  await settle();
  expect([came(), clock.timers]).toEqual([1, 0]);
});

test("background work waits for all foreground work, also new and failing", async () => {
  const { begin, wait, came, clock } = setUp();
  const first = begin();
  wait();
  const second = begin();
  first.end.reject(new Error("failed"));
  await expect(first.done).rejects.toThrow("failed");
  await settle();
  expect(came()).toBe(0);
  second.end.resolve();
  await settle();
  expect([came(), clock.timers]).toEqual([1, 0]);
});

test("background work is not delayed beyond the maximum", async () => {
  const { begin, wait, came, clock } = setUp();
  begin();
  wait();
  await clock.advance(MAX_MS - 1, settle);
  expect(came()).toBe(0);
  await clock.advance(1, settle);
  expect(came()).toBe(1);
});
