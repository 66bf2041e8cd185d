/** Sandbox metrics: measured from outside, kept for a week, in coarser intervals as they age. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { ACTIVITY_SWEEP_MS } from "./activity.ts";
import { downsampled, stepOf } from "./metric-downsampling.ts";
import { METRIC_BLOCK_MS } from "./metric-samples.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

interface Metric {
  timestamp: string;
  timestampUnix: number;
  cpuCount: number;
  cpuUsedPct: number;
  memUsed: number;
  memTotal: number;
}

async function metrics(id: string, query = "", headers: Record<string, string> = {}): Promise<Metric[]> {
  const reply = await fixture.call("GET", `/sandboxes/${id}/metrics${query}`, undefined, headers);
  expect(reply.status).toBe(200);
  return reply.body as unknown as Metric[];
}

const seconds = (found: Metric[]) => found.map(({ timestamp }) => (Date.parse(timestamp) - NOW) / 1000);
const MIB = 1024 * 1024;

describe("samples", () => {
  test("are taken within about a second, then every five", async () => {
    const id = await fixture.create({ timeout: 600 });
    expect(await metrics(id)).toEqual([]);
    await fixture.passBy(1_500);
    expect(await metrics(id)).toHaveLength(1);
    await fixture.passBy(18_500);
    const times = seconds(await metrics(id));
    expect(times[0]).toBeLessThanOrEqual(1.5);
    const gaps = times.slice(2).map((time, nth) => time - (times[nth + 1] ?? 0));
    expect(gaps).toEqual(gaps.map(() => 5));
    expect(times.length).toBeGreaterThanOrEqual(4);
  });

  test("have the sandbox's size and use, and the processor use since the previous sample", async () => {
    const id = await fixture.create({ timeout: 600 });
    // Half a processor of two, all the time.
    fixture.host.usageOf = () => ({
      cpuUsedMs: 1e6 + (fixture.clock.now() - NOW) / 2,
      memUsed: 300 * MIB,
      memCache: 20 * MIB,
      diskUsed: 5e9,
      diskTotal: 1e10,
    });
    await fixture.passBy(10_000);
    const [first, ...rest] = await metrics(id);
    expect(first).toMatchObject({ cpuCount: 2, cpuUsedPct: 25, memUsed: 300 * MIB, memTotal: 1024 * MIB });
    expect(first).toMatchObject({ memCache: 20 * MIB, diskUsed: 5e9, diskTotal: 1e10 });
    expect(rest.every(({ cpuUsedPct }) => cpuUsedPct === 25)).toBe(true);
  });

  test("with decreased counters count as idle", async () => {
    const id = await fixture.create({ timeout: 600 });
    let used = 50_000;
    fixture.host.usageOf = () => ({ cpuUsedMs: used--, memUsed: 1, memCache: 1, diskUsed: 1, diskTotal: 1 });
    await fixture.passBy(7_000);
    expect((await metrics(id)).map(({ cpuUsedPct }) => cpuUsedPct)).toEqual(expect.arrayContaining([0]));
  });

  test("of all sandboxes are taken in one pass", async () => {
    for (let nth = 0; nth < 20; nth++) await fixture.create({ timeout: 600 });
    await fixture.passBy(4_500);
    fixture.host.measured = 0;
    await fixture.passBy(5_000);
    expect(fixture.host.measured).toBe(1);
  });

  test("end with the sandbox and stay readable", async () => {
    const id = await fixture.create({ timeout: 600 });
    await fixture.passBy(6_000);
    const before = await metrics(id);
    await fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.passBy(20_000);
    expect(await metrics(id)).toEqual(before);
  });

  test("survive a restart, and continue after it", async () => {
    const id = await fixture.create({ timeout: 3600 });
    await fixture.passBy(21_000);
    const before = await metrics(id);
    await fixture.restart();
    expect(await metrics(id)).toEqual(before);
    await fixture.passBy(12_000);
    const after = await metrics(id);
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.length).toBeGreaterThan(before.length);
  });

  // Guards against losing the metrics from before the pause.
  test("from before a pause are kept if they could not be written then", async () => {
    const id = await fixture.create({ timeout: 3600 });
    await fixture.passBy(12_000);
    const before = await metrics(id);
    expect(before.length).toBeGreaterThan(1);
    const { transaction } = fixture.store;
    fixture.store.transaction = () => Promise.reject(new Error("the store is away"));
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.passBy(1_000);
    fixture.store.transaction = transaction;
    await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
    await fixture.passBy(12_000);
    const after = await metrics(id);
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.length).toBeGreaterThan(before.length);
    await fixture.restart();
    expect(await metrics(id)).toEqual(after);
  });

  test("continue in the next block", async () => {
    const id = await fixture.create({ timeout: 3600 });
    await fixture.passBy(METRIC_BLOCK_MS + 60_000);
    const times = seconds(await metrics(id));
    expect(times.length).toBeGreaterThanOrEqual(130);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set(times).size).toBe(times.length);
  });

  test("are visible to their own team only", async () => {
    const id = await fixture.create({ timeout: 600 });
    await fixture.passBy(2_000);
    const other = { "X-API-Key": await fixture.anotherTeam("other") };
    expect(await metrics(id, "", other)).toEqual([]);
    const newest = await fixture.call("GET", `/sandboxes/metrics?sandbox_ids=${id}`, undefined, other);
    expect<unknown>(newest.body).toEqual({ sandboxes: {} });
  });
});

describe("a query", () => {
  test("has a span in seconds that includes both ends", async () => {
    const id = await fixture.create({ timeout: 600 });
    await fixture.passBy(30_000);
    const all = await metrics(id);
    const [, second, third] = all;
    const start = second?.timestampUnix ?? 0;
    const end = third?.timestampUnix ?? 0;
    expect(await metrics(id, `?start=${start}&end=${end}`)).toEqual(all.slice(1, 3));
    expect((await fixture.call("GET", `/sandboxes/${id}/metrics?start=9&end=8`)).status).toBe(400);
    expect((await fixture.call("GET", `/sandboxes/${id}/metrics?start=x`)).status).toBe(400);
  });

  test("for several sandboxes returns the newest of each, without those that have none", async () => {
    const [one, two] = [await fixture.create({ timeout: 600 }), await fixture.create({ timeout: 600 })];
    await fixture.passBy(7_000);
    const reply = await fixture.call("GET", `/sandboxes/metrics?sandbox_ids=${one},${two},inever`);
    const { sandboxes } = reply.body as unknown as { sandboxes: Record<string, Metric> };
    expect(Object.keys(sandboxes).toSorted()).toEqual([one, two].toSorted());
    expect(sandboxes[one]).toEqual((await metrics(one)).at(-1));
  });

  test.each([
    ["none", "?sandbox_ids=", "sandbox_ids"],
    ["not given", "", "sandbox_ids"],
    ["twice the same", "?sandbox_ids=a,a", "sandbox_ids"],
    ["101", `?sandbox_ids=${Array.from({ length: 101 }, (_, nth) => `i${nth}`).join(",")}`, "at most 100 entries"],
    ["no ids", "?sandbox_ids=A-B", "must consist of a-z and 0-9"],
  ])("for several sandboxes with %s is rejected", async (_what, query, words) => {
    const reply = await fixture.call("GET", `/sandboxes/metrics${query}`);
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining(words)]);
  });
});

describe("steps", () => {
  const HOUR = 3_600_000;
  const sample = (at: number, cpuUsedPct = 0, memUsed = 0) => ({
    at,
    cpuUsedPct,
    memUsed,
    cpuCount: 1,
    memTotal: 1,
    memCache: 1,
    diskUsed: 1,
    diskTotal: 1,
  });

  test.each([
    [0, 5],
    [HOUR - 1, 5],
    [HOUR, 30],
    [6 * HOUR, 60],
    [12 * HOUR, 120],
    [24 * HOUR, 300],
    [7 * 24 * HOUR, 900],
  ])("a span of %d ms has steps of %d s", (span, step) => {
    expect(stepOf(span)).toBe(step * 1000);
  });

  test("a step has the mean processor use and the sample with the most memory", () => {
    const found = downsampled(
      [sample(0, 10, 5), sample(5_000, 30, 9), sample(10_000, 20, 1), sample(30_000, 1, 1)],
      30_000,
    );
    expect(found).toEqual([sample(10_000, 20, 9), sample(30_000, 1, 1)]);
  });

  test("old samples are thinned, and removed after a week", async () => {
    const id = "iold";
    const teamId = fixture.firstRun.teamId;
    const start = Math.floor(NOW / METRIC_BLOCK_MS) * METRIC_BLOCK_MS;
    const samples = Array.from({ length: 120 }, (_, nth) => sample(start + nth * 5_000, 50, nth));
    await fixture.store.metricBlocks.put({ sandboxId: id, teamId, blockAt: start, stepMs: 5_000, samples });
    const steps: number[] = [];
    for (const hours of [0, 2, 7, 13, 25, 24 * 7 + 1]) {
      fixture.clock.advance(start + hours * HOUR - fixture.clock.now(), async () => undefined);
      await fixture.idleClock.advance(ACTIVITY_SWEEP_MS, () => fixture.control.settled());
      steps.push((await fixture.store.metricBlocks.at(id, start))?.samples.length ?? -1);
    }
    expect(steps).toEqual([120, 20, 10, 5, 2, -1]);
  });
});
