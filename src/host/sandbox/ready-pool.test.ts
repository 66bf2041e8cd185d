import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { BASE_TEMPLATE } from "../../contract/management/base-template.ts";
import type { LogEntry } from "../../work/log.ts";
import type { SandboxKind } from "../host.ts";
import { READY_RETRY_MS } from "../limits.ts";
import { ReadyPool } from "./ready-pool.ts";

const kind: SandboxKind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: "base" };
const plain = { kind, checkpoint: null };
const alive = new Set<string>();
let pool: ReadyPool;
let booted: PromiseWithResolvers<void>;
let boots: number;

beforeEach(() => {
  alive.clear();
  boots = 0;
  booted = Promise.withResolvers();
  const startAhead = async ({ checkpoint }: { checkpoint: string | null }) => {
    const id = `${checkpoint ?? "ahead"} ${++boots}`;
    alive.add(id);
    if (boots === 2) booted.resolve();
    return id;
  };
  pool = new ReadyPool(
    startAhead,
    async (id) => void alive.delete(id),
    (id) => alive.has(id),
  );
});
afterEach(() => pool.close());

async function filled(checkpoint: string | null = null): Promise<void> {
  pool.keep([{ kind, count: 2, checkpoint }]);
  await booted.promise;
  await Bun.sleep(0);
}

test("one that is ready is given out, and only once", async () => {
  await filled();
  expect([pool.take(plain), pool.take(plain), pool.take(plain)]).toEqual(["ahead 1", "ahead 2", undefined]);
});

test("one that died while it waited is passed over", async () => {
  await filled();
  alive.delete("ahead 1");
  expect(pool.take(plain)).toBe("ahead 2");
  alive.clear();
  expect(pool.take(plain)).toBeUndefined();
});

test("what is to be behind another wall gets nothing of it", async () => {
  await filled();
  expect(pool.take({ kind: { ...kind, wall: "runsc" }, checkpoint: null })).toBeUndefined();
  expect(pool.take(plain)).toBe("ahead 1");
});

test("another kind, or another checkpoint, gets nothing of it", async () => {
  await filled("c1");
  expect(pool.take({ kind: { ...kind, memoryMB: kind.memoryMB + 1 }, checkpoint: "c1" })).toBeUndefined();
  expect(pool.take(plain)).toBeUndefined();
  expect(pool.take({ kind, checkpoint: "c2" })).toBeUndefined();
  expect(pool.take({ kind, checkpoint: "c1" })).toBe("c1 1");
});

test("with a smaller number the rest goes, and with a greater one more are booted", async () => {
  await filled();
  pool.keep([{ kind, count: 1, checkpoint: null }]);
  expect([...alive]).toEqual(["ahead 1"]);
  booted = Promise.withResolvers();
  boots = 0;
  pool.keep([{ kind, count: 3, checkpoint: null }]);
  await booted.promise;
  await Bun.sleep(0);
  expect(alive.size).toBe(2);
});

test("nothing is kept of which none is wanted", async () => {
  await filled();
  pool.keep([{ kind, count: 0, checkpoint: null }]);
  expect([...alive]).toEqual([]);
});

test("when it closes, what nobody took goes", async () => {
  await filled();
  await pool.close();
  expect([...alive]).toEqual([]);
});

function poolWith(bootAhead: () => Promise<string>, discard: () => Promise<void>) {
  const entries: LogEntry[] = [];
  const told = Promise.withResolvers<void>();
  const log = {
    write(entry: LogEntry) {
      entries.push(entry);
      told.resolve();
    },
  };
  const pool = new ReadyPool(bootAhead, discard, () => true, log);
  return { pool, entries, told: told.promise };
}

test("a boot ahead that fails is told in the log", async () => {
  const { pool, entries, told } = poolWith(
    () => Promise.reject(new Error("no memory")),
    async () => undefined,
  );
  pool.keep([{ kind, count: 1, checkpoint: null }]);
  await told;
  await pool.close();
  expect(entries).toEqual([
    { level: "error", event: "sandbox could not be booted ahead", error: expect.stringContaining("no memory") },
  ]);
});

test("a checkpoint that does not fit is not tried again", async () => {
  let tries = 0;
  const { pool, entries, told } = poolWith(
    () => Promise.reject(new Fault(++tries > 0 ? 422 : 500, "written on pdp11")),
    async () => undefined,
  );
  jest.useFakeTimers();
  try {
    pool.keep([{ kind, count: 1, checkpoint: "c1" }]);
    jest.advanceTimersByTime(1);
    await told;
    await Promise.resolve();
    jest.advanceTimersByTime(10 * READY_RETRY_MS);
  } finally {
    jest.useRealTimers();
  }
  await pool.close();
  expect([tries, entries.length]).toEqual([1, 1]);
});

test("a ready sandbox that cannot be discarded is told in the log", async () => {
  const booted = Promise.withResolvers<void>();
  const { pool, entries } = poolWith(
    async () => {
      booted.resolve();
      return "iready";
    },
    () => Promise.reject(new Error("it stays")),
  );
  pool.keep([{ kind, count: 1, checkpoint: null }]);
  await booted.promise;
  // It lies ready once all that was waiting has run.
  await new Promise(setImmediate);
  await pool.close();
  const event = "ready sandbox could not be discarded";
  expect(entries).toEqual([{ level: "error", event, sandbox: "iready", error: expect.stringContaining("it stays") }]);
});
