/** Booting ahead that fails is told in the server's log, in the form of its other lines. */
import { expect, test } from "bun:test";
import type { LogEntry } from "../../work/log.ts";
import type { SandboxKind } from "../host.ts";
import { ReadyPool } from "./ready-pool.ts";

const kind = { image: "base", cpuCount: 1, memoryMB: 512, diskSizeMB: 1024 } as SandboxKind;

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
    1,
    async () => "iboot",
    bootAhead,
    discard,
    () => true,
    log,
  );
  return { pool, entries, told: told.promise };
}

test("a boot that fails", async () => {
  const { pool, entries, told } = poolWith(
    () => Promise.reject(new Error("no memory")),
    async () => undefined,
  );
  pool.keep([kind]);
  await told;
  await pool.close();
  expect(entries).toEqual([
    { level: "error", event: "sandbox could not be booted ahead", error: expect.stringContaining("no memory") },
  ]);
});

test("a ready sandbox that cannot be discarded", async () => {
  const booted = Promise.withResolvers<void>();
  const { pool, entries } = poolWith(
    async () => {
      booted.resolve();
      return "iready";
    },
    () => Promise.reject(new Error("it stays")),
  );
  pool.keep([kind]);
  await booted.promise;
  // It lies ready once all that was waiting has run.
  await new Promise(setImmediate);
  await pool.close();
  const event = "ready sandbox could not be discarded";
  expect(entries).toEqual([{ level: "error", event, sandbox: "iready", error: expect.stringContaining("it stays") }]);
});
