/** What is ready for the first burst, before anybody has asked for that many. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { READY_LOOK_MS, READY_SPARE_QUIET_MS } from "./limits.ts";
import type { ReadyPool } from "./ready-pool.ts";
import { PLAIN as base, KIND as kind, MIB, ShelfFixture } from "./testing/shelf-fixture.ts";

const SPARE = 6;
const kept = [{ ...base, count: 2 }];

let f: ShelfFixture;
let pool: ReadyPool;
let isBusy: boolean;

beforeEach(() => {
  f = new ShelfFixture();
  isBusy = false;
  pool = f.open({ spare: SPARE, isBusy: () => isBusy });
});
afterEach(() => f.close(pool));

const take = () => pool.serve({ ...base, owner: "ours" }, () => Promise.resolve("made for it"));

test("a first burst is served from the shelf", async () => {
  pool.keep(kept);
  await f.filled();
  const given = await Promise.all(Array.from({ length: SPARE }, take));
  expect([new Set(given).size, given.includes("made for it")]).toEqual([SPARE, false]);
});

test("none of a template that is not kept, or comes with the memory of a checkpoint", async () => {
  pool.keep([{ kind, checkpoint: "c1", count: 1 }]);
  expect(await take()).toBe("made for it");
  await f.filled();
  expect([...f.machine.keys()].filter((id) => !id.startsWith("c1"))).toEqual([]);
  expect(f.machine.size).toBe(1);
});

test("they are made one at a time, while nobody asks and the machine is not busy", async () => {
  isBusy = true;
  pool.keep(kept);
  await f.filled();
  expect(f.machine.size).toBe(2);
  isBusy = false;
  await f.pass(READY_LOOK_MS);
  await f.pass(READY_LOOK_MS);
  expect(f.starts.length).toBe(1);
  await f.endStart();
  await f.pass(READY_LOOK_MS);
  expect(f.starts.length).toBe(1);
  await f.filled();
  expect(f.machine.size).toBe(SPARE);
});

test("after one was taken it is a while until another is made, but for those kept in any case", async () => {
  pool.keep(kept);
  await f.filled();
  await take();
  await f.pass(READY_SPARE_QUIET_MS - 1);
  expect(f.starts.length).toBe(0);
  await f.filled();
  expect(f.machine.size).toBe(SPARE + 1);
});

test("they go as soon as memory is short, and when the template is not kept any more", async () => {
  pool.keep(kept);
  await f.filled();
  f.room = { places: 100, bytes: 300 * MIB };
  await f.pass(READY_LOOK_MS);
  expect(f.machine.size).toBe(5);
  f.room = { places: 100, bytes: 0 };
  await f.pass(READY_LOOK_MS);
  expect(f.machine.size).toBe(2);
  pool.keep([]);
  await f.settled();
  expect(f.machine.size).toBe(0);
});
