/** When the ready pool makes sandboxes: clients go first. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { READY_BURST_MS } from "./demand.ts";
import type { ReadyPool } from "./ready-pool.ts";
import { READY_CHECK_MS, READY_REFILL_DELAY_MS, READY_USE_MS } from "./ready-pool.ts";
import { KIND as kind, PoolFixture, PLAIN as plain } from "./testing/pool-fixture.ts";

let f: PoolFixture;
let pool: ReadyPool;

beforeEach(() => {
  f = new PoolFixture();
  pool = f.open();
});
afterEach(() => f.close(pool));

const ask = (owner?: string) => pool.take({ ...plain, owner });
const requestsMade = (count: number) => Promise.all(Array.from({ length: count }, () => ask("ours")));

test("the pool starts nothing beside starts that clients wait for, and continues after them", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await f.filled();
  await ask();
  const others = [pool.trackClientStart(), pool.trackClientStart()];
  await f.pass(10 * READY_CHECK_MS);
  expect(f.starts.length).toBe(0);
  others[0]?.[Symbol.dispose]();
  await f.pass(0);
  expect(f.starts.length).toBe(1);
});

test("after a single create the pool waits a moment; with few left, it refills at once", async () => {
  pool.keep([{ ...plain, count: 3 }]);
  await f.filled();
  await ask();
  await f.pass(READY_REFILL_DELAY_MS - 1);
  expect(f.starts.length).toBe(0);
  await f.pass(1);
  expect(f.starts.length).toBe(1);
  await ask();
  for (let taken = 0; taken < 10; taken++) {
    expect(await ask()).toBeDefined();
    await f.pass(READY_REFILL_DELAY_MS / 2);
    await f.endStart();
  }
});

test("during consecutive creates the pool waits until a quarter is left", async () => {
  await requestsMade(20);
  await f.filled();
  await f.pass(READY_BURST_MS);
  for (let left = 19; left >= 5; left--) {
    await ask("ours");
    await f.pass(READY_REFILL_DELAY_MS / 2);
    expect([left, f.starts.length]).toEqual([left, 0]);
  }
  await ask("ours");
  await f.pass(READY_REFILL_DELAY_MS / 2);
  expect(f.starts.length).toBe(1);
});

test("after a burst, a busy machine delays the refill for a while, if some are left", async () => {
  let isBusyNow = true;
  pool = f.open({ isBusyNow: () => isBusyNow });
  await requestsMade(6);
  await f.filled();
  await requestsMade(3);
  await f.pass(READY_USE_MS - 1);
  expect(f.starts.length).toBe(0);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(2);
  await f.filled();
  await requestsMade(3);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(0);
  isBusyNow = false;
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(2);
});

test("with hardly one left, the pool refills on a busy machine", async () => {
  pool = f.open({ isBusyNow: () => true });
  await requestsMade(6);
  await f.filled();
  await requestsMade(5);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(1);
});

test("a template that can wait does not delay another", async () => {
  pool = f.open({ isBusyNow: () => true });
  const askOther = () => pool.take({ kind, checkpoint: "c1", owner: "ours" });
  await Promise.all([requestsMade(8), askOther(), askOther()]);
  await f.filled();
  await f.pass(READY_BURST_MS);
  await Promise.all([requestsMade(6), askOther()]);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.map(({ checkpoint }) => checkpoint)).toEqual(["c1"]);
});
