import { afterEach, beforeEach, expect, mock, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { READY_BURST_MS, READY_HALVED_MS, READY_HELD_MS } from "./demand.ts";
import type { ReadyPool } from "./ready-pool.ts";
import { READY_CHECK_MS, READY_RETRY_MS } from "./ready-pool.ts";
import type { StartSpec } from "./template-pool.ts";
import { KIND as kind, MIB, PoolFixture, PLAIN as plain } from "./testing/pool-fixture.ts";

let fixture: PoolFixture;
let pool: ReadyPool;

beforeEach(() => {
  fixture = new PoolFixture();
  pool = fixture.open();
});
afterEach(() => fixture.close(pool));

const ask = async (owner?: string, wanted: StartSpec = plain) => (await pool.take({ ...wanted, owner })) ?? "none";
const requestsMade = (count: number, owner = "ours", wanted: StartSpec = plain) =>
  Promise.all(Array.from({ length: count }, () => ask(owner, wanted)));
const reported = (id = kind.templateId) => fixture.report.templates.find(({ templateId }) => templateId === id);

test("a ready sandbox is handed out once, and runs from then on", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  const ids = [...fixture.machine.keys()];
  expect([...fixture.machine.values()]).toEqual(["frozen", "frozen"]);
  const given = [await ask(), await ask(), await ask()];
  expect(given.toSorted()).toEqual([...ids, "none"].toSorted());
  expect(ids.map((id) => fixture.machine.get(id))).toEqual(["runs", "runs"]);
});

test("a sandbox that ended in the pool is skipped", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  const [first = "", second = ""] = fixture.machine.keys();
  fixture.machine.delete(first);
  expect(await ask()).toBe(second);
  fixture.machine.clear();
  expect(await ask()).toBe("none");
});

test("a lost sandbox is replaced", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.filled();
  pool.lost([...fixture.machine.keys()][0] ?? "");
  fixture.machine.clear();
  await fixture.filled();
  expect(fixture.machine.size).toBe(1);
});

test("a create with another kind, runtime or checkpoint gets no ready sandbox", async () => {
  pool.keep([{ kind, checkpoint: "c1", count: 1 }]);
  await fixture.filled();
  expect(await ask(undefined, { kind: { ...kind, memoryMB: kind.memoryMB + 1 }, checkpoint: "c1" })).toBe("none");
  expect(await ask(undefined, { kind: { ...kind, wall: "runsc" }, checkpoint: "c1" })).toBe("none");
  expect(await ask()).toBe("none");
  expect(await ask(undefined, { kind, checkpoint: "c2" })).toBe("none");
  expect(await ask(undefined, { kind, checkpoint: "c1" })).toStartWith("c1 ");
});

test("a lower number removes sandboxes, a higher one adds some, zero removes all", async () => {
  for (const count of [2, 1, 3, 0]) {
    pool.keep([{ ...plain, count }]);
    await fixture.filled();
    expect(fixture.machine.size).toBe(count);
  }
});

test("two equal templates have separate ready sandboxes", async () => {
  pool.keep([
    { ...plain, count: 2 },
    { ...plain, count: 1 },
  ]);
  await fixture.filled();
  expect(fixture.machine.size).toBe(3);
});

test("a closing pool destroys its ready sandboxes", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  await pool.close();
  expect(fixture.machine.size).toBe(0);
});

test("a closing pool also destroys sandboxes that are being started", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  const closed = pool.close();
  await fixture.endStart();
  await closed;
  expect(fixture.machine.size).toBe(0);
});

test("after a burst the pool holds as many as it had, also of a template without a number", async () => {
  for (const checkpoint of [null, "c1"]) {
    expect(await requestsMade(20, "ours", { kind, checkpoint })).toEqual(Array(20).fill("none"));
    await fixture.filled();
    const again = await requestsMade(20, "ours", { kind, checkpoint });
    expect(new Set(again).size).toBe(20);
    expect(again).not.toContain("none");
  }
});

test("after some idle minutes the pool shrinks to its minimum", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  await requestsMade(8);
  fixture.machine.clear();
  await fixture.filled();
  expect(fixture.machine.size).toBe(8);
  await fixture.pass(READY_HELD_MS + READY_HALVED_MS - 10 * READY_CHECK_MS);
  expect(fixture.machine.size).toBe(4);
  await fixture.pass(READY_HALVED_MS * 3);
  expect(fixture.machine.size).toBe(2);
  pool.keep([]);
  await fixture.settled();
  expect(fixture.machine.size).toBe(0);
});

test("a single create keeps none ready, a second one does", async () => {
  await ask("ours");
  await fixture.filled();
  expect(fixture.machine.size).toBe(0);
  await fixture.pass(READY_BURST_MS);
  await ask("ours");
  await fixture.filled();
  expect(fixture.machine.size).toBe(1);
});

test("without an owner, or without demand mode, nothing is kept ready", async () => {
  await Promise.all([ask(), ask(), ask()]);
  await fixture.filled();
  expect(fixture.machine.size).toBe(0);
  pool = fixture.open({ followsDemand: false });
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.filled();
  await requestsMade(5);
  await fixture.filled();
  expect(reported()?.ready).toBe(1);
});

test("when memory gets short the pool shrinks to its minimum at once", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  await requestsMade(20);
  fixture.machine.clear();
  await fixture.filled();
  expect(fixture.machine.size).toBe(20);
  fixture.room = { places: 100, bytes: 75 * MIB };
  await fixture.pass(READY_CHECK_MS);
  expect(fixture.machine.size).toBe(7);
  fixture.room = { places: 100, bytes: 0 };
  await fixture.pass(READY_CHECK_MS);
  expect(fixture.machine.size).toBe(2);
});

test("a single failed reading of free memory has no effect", async () => {
  let isBroken = false;
  const seen = () => {
    if (isBroken) throw new Error("EIO");
    return fixture.room;
  };
  pool = fixture.open({ room: seen });
  await requestsMade(3);
  await fixture.filled();
  isBroken = true;
  await fixture.pass(READY_CHECK_MS);
  isBroken = false;
  expect(fixture.entries).toMatchObject([{ level: "error", error: expect.stringContaining("EIO") }]);
  fixture.room = { places: 0, bytes: 0 };
  await fixture.pass(READY_RETRY_MS);
  expect(fixture.machine.size).toBe(0);
});

test("one team's templates do not use the whole pool, and another team's demand gets its share", async () => {
  fixture.room = { places: 10, bytes: 1000 * MIB };
  for (const image of ["a", "b", "c", "d"]) {
    await requestsMade(5, "greedy", { kind: { ...kind, image }, checkpoint: null });
    await fixture.pass(10);
  }
  await fixture.filled();
  expect(fixture.machine.size).toBe(8);
  await requestsMade(10, "other", { kind: { ...kind, templateId: "other" }, checkpoint: "c1" });
  await fixture.filled();
  expect(reported("other")?.ready).toBe(5);
  expect(fixture.machine.size).toBe(10);
});

test("the first sandbox of a kind is measured before more are made", async () => {
  await requestsMade(5);
  await fixture.pass(READY_CHECK_MS);
  expect(fixture.starts.length).toBe(1);
  await fixture.endStart();
  expect(fixture.starts.length).toBe(2);
});

test("a create gets the sandbox that is being prepared", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  const early = ask();
  const late = ask();
  expect(await late).toBe("none");
  const id = await fixture.endStart();
  expect(await early).toBe(id);
  expect(fixture.machine.get(id)).toBe("runs");
  await fixture.filled();
  expect(fixture.report).toMatchObject({ hits: 0, joined: 1, misses: 1 });
});

test("a create that waits for a failing start gets none", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  const waiting = ask();
  fixture.starts.shift()?.done.reject(new Error("no room"));
  expect(await waiting).toBe("none");
});

test("ready sandboxes of a removed template are destroyed", async () => {
  await requestsMade(3, "ours", { kind, checkpoint: "c1" });
  await fixture.filled();
  expect(fixture.machine.size).toBe(3);
  pool.forget(({ checkpoint }) => checkpoint === "c1");
  await fixture.pass(0);
  expect(fixture.machine.size).toBe(0);
});

test("a failed start ahead of demand is logged, and retried after a while", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  fixture.starts.shift()?.done.reject(new Error("no memory"));
  await fixture.settled();
  expect(fixture.entries).toEqual([
    { level: "error", event: "sandbox could not be made ready", error: expect.stringContaining("no memory") },
  ]);
  await fixture.pass(READY_RETRY_MS - 1);
  expect(fixture.starts.length).toBe(0);
  await fixture.pass(1);
  expect(fixture.starts.length).toBe(1);
});

test("a checkpoint that does not fit is not retried", async () => {
  pool.keep([{ kind, checkpoint: "c1", count: 1 }]);
  fixture.starts.shift()?.done.reject(new Fault(422, "written on pdp11"));
  await fixture.pass(10 * READY_RETRY_MS);
  expect([fixture.starts.length, fixture.entries.length]).toEqual([0, 1]);
});

test("a sandbox that cannot be frozen is removed", async () => {
  pool = fixture.open({ stop: () => Promise.reject(new Fault(503, "it runs on")) });
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.endStart();
  await fixture.settled();
  expect(fixture.machine.size).toBe(0);
  expect(fixture.entries).toMatchObject([{ error: expect.stringContaining("it runs on") }]);
});

test("a ready sandbox that cannot be removed is logged", async () => {
  pool = fixture.open({ discard: () => Promise.reject(new Error("it stays")) });
  pool.keep([{ ...plain, count: 1 }]);
  const id = await fixture.endStart();
  await pool.close();
  const event = "ready sandbox could not be discarded";
  expect(fixture.entries).toEqual([{ level: "error", event, sandbox: id, error: expect.stringContaining("it stays") }]);
});

test("without recent demand the pool has no timer", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  await requestsMade(1);
  await fixture.filled();
  expect(fixture.clock.timers).toBe(1);
  await fixture.pass(READY_HELD_MS + READY_HALVED_MS);
  await fixture.filled();
  expect(fixture.clock.timers).toBe(0);
});

test("a pool that is given up holds none, not even the minimum, until memory is enough again", async () => {
  pool.keep([{ ...plain, count: 2 }]);
  await fixture.filled();
  await requestsMade(2);
  await fixture.pass(READY_CHECK_MS);
  expect(fixture.starts.length).toBeGreaterThan(0);
  expect(pool.setSuspended(true)).toBe(true);
  await fixture.filled();
  expect(pool.setSuspended(true)).toBe(false);
  expect([...fixture.machine.values()]).toEqual(["runs", "runs"]);
  expect(fixture.report).toMatchObject({ isShortOfMemory: true, templates: [{ ready: 0, making: 0, target: 0 }] });
  await fixture.pass(10 * READY_CHECK_MS);
  expect(fixture.starts).toHaveLength(0);
  pool.setSuspended(false);
  await fixture.filled();
  expect(reported()?.ready).toBeGreaterThanOrEqual(2);
  expect(fixture.report.isShortOfMemory).toBeUndefined();
});

test("a create takes over a sandbox that was being made when the pool was given up", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.pass(READY_CHECK_MS);
  const taken = ask();
  await fixture.settled();
  pool.setSuspended(true);
  const made = await fixture.endStart();
  expect(await taken).toBe(made);
});

test("the pool reports its size, target, and how creates were served", async () => {
  pool.keep([{ ...plain, count: 1 }]);
  await fixture.filled();
  await requestsMade(3);
  await fixture.filled();
  await ask("ours", { kind, checkpoint: "c1" });
  await ask(undefined, { kind, checkpoint: "of a copy" });
  await fixture.filled();
  const { templateId } = kind;
  const counts = { hits: 1, joined: 0, misses: 3 };
  const template = { templateId, floor: 1, target: 3, ready: 3, making: 0, ...counts };
  expect(fixture.report).toEqual({ templates: [template], ...counts });
});

test("memory is not read while clients use all starts, nor for templates without a pool", async () => {
  const room = mock(() => fixture.room);
  pool = fixture.open({ room });
  const starts = Array.from({ length: 20 }, () => pool.trackClientStart());
  for (const start of starts.splice(0, 10)) {
    start[Symbol.dispose]();
    await fixture.pass(1);
  }
  pool.forget(() => true);
  await fixture.pass(1);
  expect(room).toHaveBeenCalledTimes(0);
  for (const start of starts) start[Symbol.dispose]();
  await fixture.pass(1);
  expect(room).toHaveBeenCalledTimes(1);
});
