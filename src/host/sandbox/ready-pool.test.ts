import { afterEach, beforeEach, expect, test } from "bun:test";
import { BASE_TEMPLATE } from "../../contract/management/base-template.ts";
import type { LogEntry } from "../../work/log.ts";
import { ReadyPool } from "./ready-pool.ts";

const kind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: "base" };
const alive = new Set<string>();
let pool: ReadyPool;
let booted: PromiseWithResolvers<void>;
let boots: number;

beforeEach(() => {
  alive.clear();
  boots = 0;
  booted = Promise.withResolvers();
  const boot = async (how: string) => {
    const id = `${how} ${++boots}`;
    alive.add(id);
    return id;
  };
  const bootAhead = async () => {
    const id = await boot("ahead");
    if (boots === 2) booted.resolve();
    return id;
  };
  pool = new ReadyPool(
    () => boot("asked"),
    bootAhead,
    async (id) => void alive.delete(id),
    (id) => alive.has(id),
  );
});
afterEach(() => pool.close());

async function filled(): Promise<void> {
  pool.keep([{ kind, count: 2, checkpoint: null }]);
  await booted.promise;
  await Bun.sleep(0);
}

test("one that is ready is given out, and only once", async () => {
  await filled();
  expect([await pool.take(kind), await pool.take(kind)]).toEqual(["ahead 1", "ahead 2"]);
  expect(await pool.take(kind)).toStartWith("asked");
});

test("one that died while it waited is passed over, and with none left a new one is booted", async () => {
  await filled();
  alive.delete("ahead 1");
  expect(await pool.take(kind)).toBe("ahead 2");
  alive.clear();
  expect(await pool.take(kind)).toStartWith("asked");
});

test("another kind gets nothing of it", async () => {
  await filled();
  expect(await pool.take({ ...kind, memoryMB: kind.memoryMB + 1 })).toStartWith("asked");
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

test("nothing is kept of what starts from a checkpoint, or of which none is wanted", async () => {
  await filled();
  const same = [0, 5].map((count) => ({ kind, count, checkpoint: count === 0 ? null : "c1" }));
  pool.keep(same);
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
  const pool = new ReadyPool(
    async () => "iboot",
    bootAhead,
    discard,
    () => true,
    log,
  );
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
