/** While clients wait for sandboxes that the ready pool lacks, the pool does nothing that delays them. */
import { afterEach, beforeEach, expect, mock, test } from "bun:test";
import type { ReadyPool } from "./ready-pool.ts";
import { PoolFixture } from "./testing/pool-fixture.ts";

let f: PoolFixture;
let pool: ReadyPool;
const room = mock(() => f.room);

beforeEach(() => {
  f = new PoolFixture();
  room.mockClear();
  pool = f.open({ room });
});
afterEach(() => f.close(pool));

test("nobody looks what room there is while as much is under way as may be", async () => {
  const work = Array.from({ length: 20 }, () => Promise.withResolvers<void>());
  for (const { promise } of work) void pool.during(() => promise);
  for (const { resolve } of work.slice(0, 10)) {
    resolve();
    await f.pass(1);
  }
  expect(room).toHaveBeenCalledTimes(0);
  for (const { resolve } of work) resolve();
  await f.pass(1);
  expect(room).toHaveBeenCalledTimes(1);
});

test("nor when what is gone was never kept", async () => {
  pool.forget(() => true);
  await f.pass(1);
  expect(room).toHaveBeenCalledTimes(0);
});
