import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { LogEntry } from "../base/log.ts";
import { ManualClock } from "../base/testing/manual-clock.ts";
import type { HostEvent } from "../contract/internal/host.ts";
import { MEMORY_CHECK_MS, MEMORY_NEAR_CHECK_MS, MemoryWatch } from "./memory-watch.ts";

/** A machine of 1000 bytes with a reserve of 100. */
let availableBytes: number;
let readyLeft: number;
let reported: string[];
let entries: LogEntry[];
let clock: ManualClock;
let watch: MemoryWatch;

beforeEach(() => {
  [availableBytes, readyLeft, reported, entries] = [900, 0, [], []];
  clock = new ManualClock(0);
  watch = new MemoryWatch({
    percent: 10,
    read: () => {
      if (Number.isNaN(availableBytes)) throw new Error("no such file");
      return { totalBytes: 1000, availableBytes };
    },
    suspendPool(isShort) {
      reported.push(isShort ? "given up" : "kept");
      return readyLeft > 0;
    },
    emit: (event: HostEvent) => void reported.push(event.kind === "memory" ? event.state : event.kind),
    clock,
    log: { write: (entry) => void entries.push(entry) },
  });
});
afterEach(() => watch.close());

const pass = (ms: number) => clock.advance(ms, async () => undefined);

describe("with enough memory", () => {
  test("no event is sent", async () => {
    await pass(10 * MEMORY_CHECK_MS);
    expect([reported, entries]).toEqual([[], []]);
  });

  test("memory is read every second, and more often when it is nearly short", async () => {
    await pass(MEMORY_CHECK_MS - 1);
    availableBytes = 150;
    await pass(1);
    availableBytes = 90;
    await pass(MEMORY_NEAR_CHECK_MS - 1);
    expect(reported).toEqual([]);
    await pass(1);
    expect(reported).toEqual(["short", "given up"]);
  });
});

describe("with less than the reserve", () => {
  beforeEach(async () => {
    availableBytes = 99;
    readyLeft = 2;
    await pass(MEMORY_CHECK_MS);
  });

  test("new runs are refused before ready sandboxes are given up", () => {
    expect(reported).toEqual(["short", "given up"]);
    expect(entries).toEqual([
      expect.objectContaining({ level: "warn", event: "the machine is short of memory", availableMB: 0, reserveMB: 0 }),
    ]);
  });

  test("it is exhausted once no ready sandbox is left, and told at every look", async () => {
    reported = [];
    await pass(MEMORY_NEAR_CHECK_MS);
    expect(reported).toEqual(["given up", "short"]);
    readyLeft = 0;
    await pass(2 * MEMORY_NEAR_CHECK_MS);
    expect(reported.slice(2)).toEqual(["given up", "exhausted", "given up", "exhausted"]);
  });

  test("it is enough again only above a quarter more than the reserve", async () => {
    reported = [];
    availableBytes = 124;
    await pass(MEMORY_NEAR_CHECK_MS);
    expect(reported).toEqual(["given up", "short"]);
    availableBytes = 125;
    await pass(MEMORY_NEAR_CHECK_MS);
    expect(reported.slice(2)).toEqual(["kept", "enough"]);
    expect(entries.at(-1)).toMatchObject({ level: "info", event: "the machine has enough memory again" });
    await pass(10 * MEMORY_CHECK_MS);
    expect(reported).toHaveLength(4);
  });

  test("a failed reading changes nothing, and the next one counts", async () => {
    reported = [];
    availableBytes = Number.NaN;
    await pass(MEMORY_CHECK_MS);
    expect(reported).toEqual([]);
    expect(entries.at(-1)).toMatchObject({ level: "error", event: "the available memory could not be read" });
    availableBytes = 500;
    await pass(MEMORY_CHECK_MS);
    expect(reported).toEqual(["kept", "enough"]);
  });
});

test("a closed watch reads no more", async () => {
  watch.close();
  availableBytes = 0;
  await pass(10 * MEMORY_CHECK_MS);
  expect(reported).toEqual([]);
});
