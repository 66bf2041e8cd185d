/** When ready sandboxes are made and rehearsed: clients go first. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  READY_BURST_MS,
  READY_GAP_MS,
  READY_LOOK_MS,
  READY_REFILL_DELAY_MS,
  READY_REHEARSED_OFTEN,
  READY_RETRY_MS,
  READY_USE_MS,
} from "./limits.ts";
import type { ReadyPool } from "./ready-pool.ts";
import { KIND as kind, PLAIN as plain, ShelfFixture } from "./testing/shelf-fixture.ts";

let f: ShelfFixture;
let pool: ReadyPool;

beforeEach(() => {
  f = new ShelfFixture();
  pool = f.open();
});
afterEach(() => f.close(pool));

const ask = (owner?: string) => pool.serve({ ...plain, owner }, () => Promise.resolve("made for it"));
const asked = (count: number) => Promise.all(Array.from({ length: count }, () => ask("ours")));

test("nothing is begun beside starts that clients wait for, and it goes on after them", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await f.filled();
  await ask();
  const others = [0, 1].map(() => Promise.withResolvers<string>());
  const waiting = others.map((each) => pool.serve({ kind, checkpoint: "c9" }, () => each.promise));
  await f.pass(10 * READY_LOOK_MS);
  expect(f.starts.length).toBe(0);
  others[0]?.resolve("x");
  await f.pass(0);
  expect(f.starts.length).toBe(1);
  others[1]?.resolve("y");
  expect(await Promise.all(waiting)).toEqual(["x", "y"]);
});

test("who takes one after a while is left the processors for a moment; when few are left, they are made at once", async () => {
  pool.keep([{ ...plain, count: 3 }]);
  await f.filled();
  await ask();
  await f.pass(READY_REFILL_DELAY_MS - 1);
  expect(f.starts.length).toBe(0);
  await f.pass(1);
  expect(f.starts.length).toBe(1);
  await ask();
  for (let taken = 0; taken < 10; taken++) {
    expect(await ask()).not.toBe("made for it");
    await f.pass(READY_REFILL_DELAY_MS / 2);
    await f.endStart();
  }
});

test("who takes one after another is left the processors until a quarter is left", async () => {
  await asked(20);
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

test("nobody asks any more, but there is much to do: with some left, that goes first for a while", async () => {
  let isBusyNow = true;
  pool = f.open({ isBusyNow: () => isBusyNow });
  await asked(6);
  await f.filled();
  await asked(3);
  await f.pass(READY_USE_MS - 1);
  expect(f.starts.length).toBe(0);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(2);
  await f.filled();
  await asked(3);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(0);
  isBusyNow = false;
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(2);
});

test("with hardly one left, they are made however much there is to do", async () => {
  pool = f.open({ isBusyNow: () => true });
  await asked(6);
  await f.filled();
  await asked(5);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.length).toBe(1);
});

test("one template that can wait does not keep another waiting", async () => {
  pool = f.open({ isBusyNow: () => true });
  const askOther = () => pool.serve({ kind, checkpoint: "c1", owner: "ours" }, () => Promise.resolve("made for it"));
  await Promise.all([asked(8), askOther(), askOther()]);
  await f.filled();
  await f.pass(READY_BURST_MS);
  await Promise.all([asked(6), askOther()]);
  await f.pass(READY_REFILL_DELAY_MS);
  expect(f.starts.map(({ checkpoint }) => checkpoint)).toEqual(["c1"]);
});

test("rehearsals wait until nobody asks and the machine has little to do", async () => {
  let isBusy = true;
  pool = f.open({ isBusy: () => isBusy });
  pool.keep([
    { ...plain, count: 1 },
    { kind, checkpoint: "c1", count: 1 },
  ]);
  await f.filled();
  expect(f.rehearsed).toEqual([]);
  isBusy = false;
  await f.filled();
  const id = [...f.machine.keys()].find((each) => each.startsWith("booted"));
  expect(f.rehearsed).toEqual(Array(3).fill(`${id} runs`));
  expect(f.machine.get(id ?? "")).toBe("stands still");
});

test("in a gap between those who take some, each is rehearsed once", async () => {
  pool.keep([{ ...plain, count: 3 }]);
  await f.filled();
  f.rehearsed.length = 0;
  await asked(2);
  await f.pass(READY_REFILL_DELAY_MS);
  await ask();
  const made = [await f.endStart(), await f.endStart()];
  await f.pass(READY_GAP_MS - 1);
  expect(f.rehearsed).toEqual([]);
  await f.pass(1);
  expect(f.rehearsed).toEqual(made.map((id) => `${id} runs`));
});

test("all are rehearsed, some and those that are kept in any case often, and these are given out first", async () => {
  const often = () => [...new Set(f.rehearsed)].filter((id) => f.rehearsed.filter((each) => each === id).length > 1);
  await asked(8);
  await f.filled();
  const first = often();
  expect([f.machine.size, new Set(f.rehearsed).size, first.length]).toEqual([8, 8, READY_REHEARSED_OFTEN]);
  expect(await asked(READY_REHEARSED_OFTEN)).toSatisfy((ids: string[]) =>
    ids.every((id) => first.includes(`${id} runs`)),
  );
  pool.keep([{ ...plain, count: 6 }]);
  await f.filled();
  expect(often().length).toBe(READY_REHEARSED_OFTEN + 6);
});

test("one in which a rehearsal does not end is given to nobody, and others of its kind are not rehearsed", async () => {
  const tried: string[] = [];
  const rehearse = async (id: string) => {
    tried.push(id);
    throw new Error("no end");
  };
  pool = f.open({ rehearse });
  pool.keep([{ ...plain, count: 2 }]);
  await f.filled();
  await f.pass(READY_RETRY_MS);
  await f.filled();
  expect([tried.length, f.machine.size, f.report.templates[0]?.ready]).toEqual([1, 2, 2]);
  expect(f.machine.has(tried[0] ?? "")).toBe(false);
  expect(f.entries).toMatchObject([{ event: "sandbox could not be rehearsed" }]);
});
