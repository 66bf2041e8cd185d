/** When the ready pool makes sandboxes: clients go first. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { READY_BURST_MS } from "./demand.ts";
import type { ReadyPool } from "./ready-pool.ts";
import { READY_CHECK_MS, READY_REFILL_DELAY_MS, READY_USE_MS } from "./ready-pool.ts";
import { KIND as kind, PoolFixture, PLAIN as plain } from "./testing/pool-fixture.ts";

let fixture: PoolFixture;
let pool: ReadyPool;

beforeEach(() => {
  fixture = new PoolFixture();
  pool = fixture.open();
});
afterEach(() => fixture.close(pool));

const ask = (owner?: string) => pool.take({ ...plain, owner });
const requestsMade = (count: number) => Promise.all(Array.from({ length: count }, () => ask("ours")));

test("the pool starts nothing beside starts that clients wait for, and continues after them", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.filled();
  await ask();
  const others = [pool.trackClientStart(), pool.trackClientStart()];
  await fixture.pass(10 * READY_CHECK_MS);
  expect(fixture.starts.length).toBe(0);
  others[0]?.[Symbol.dispose]();
  await fixture.pass(0);
  expect(fixture.starts.length).toBe(1);
});

test("after a single create the pool waits a moment; with few left, it refills at once", async () => {
  pool.keep([{ ...plain, count: 3 }]);
  await fixture.filled();
  await ask();
  await fixture.pass(READY_REFILL_DELAY_MS - 1);
  expect(fixture.starts.length).toBe(0);
  await fixture.pass(1);
  expect(fixture.starts.length).toBe(1);
  await ask();
  for (let taken = 0; taken < 10; taken++) {
    expect(await ask()).toBeDefined();
    await fixture.pass(READY_REFILL_DELAY_MS / 2);
    await fixture.endStart();
  }
});

test("during consecutive creates the pool waits until a quarter is left", async () => {
  await requestsMade(20);
  await fixture.filled();
  await fixture.pass(READY_BURST_MS);
  for (let left = 19; left >= 5; left--) {
    await ask("ours");
    await fixture.pass(READY_REFILL_DELAY_MS / 2);
    expect([left, fixture.starts.length]).toEqual([left, 0]);
  }
  await ask("ours");
  await fixture.pass(READY_REFILL_DELAY_MS / 2);
  expect(fixture.starts.length).toBe(1);
});

test("after a burst, a busy machine delays the refill for a while, if some are left", async () => {
  let isBusyNow = true;
  pool = fixture.open({ isBusyNow: () => isBusyNow });
  await requestsMade(6);
  await fixture.filled();
  await requestsMade(3);
  await fixture.pass(READY_USE_MS - 1);
  expect(fixture.starts.length).toBe(0);
  await fixture.pass(READY_REFILL_DELAY_MS);
  expect(fixture.starts.length).toBe(2);
  await fixture.filled();
  await requestsMade(3);
  await fixture.pass(READY_REFILL_DELAY_MS);
  expect(fixture.starts.length).toBe(0);
  isBusyNow = false;
  await fixture.pass(READY_REFILL_DELAY_MS);
  expect(fixture.starts.length).toBe(2);
});

test("with hardly one left, the pool refills on a busy machine", async () => {
  pool = fixture.open({ isBusyNow: () => true });
  await requestsMade(6);
  await fixture.filled();
  await requestsMade(5);
  await fixture.pass(READY_REFILL_DELAY_MS);
  expect(fixture.starts.length).toBe(1);
});

test("a template that can wait does not delay another", async () => {
  pool = fixture.open({ isBusyNow: () => true });
  const askOther = () => pool.take({ kind, checkpoint: "c1", owner: "ours" });
  await Promise.all([requestsMade(8), askOther(), askOther()]);
  await fixture.filled();
  await fixture.pass(READY_BURST_MS);
  await Promise.all([requestsMade(6), askOther()]);
  await fixture.pass(READY_REFILL_DELAY_MS);
  expect(fixture.starts.map(({ checkpoint }) => checkpoint)).toEqual(["c1"]);
});
