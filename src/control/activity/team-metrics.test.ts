/** Team metrics: running and started sandboxes, exact to the event, also after a crash. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import type { TeamActivity } from "../../store/team-activity.ts";
import { METRIC_EVERY_MS } from "../limits.ts";
import { ControlFixture, NOW, seededRandom } from "../testing/control-fixture.ts";
import { sweepActivity } from "./activity-sweep.ts";
import { AGING } from "./metric-downsampling.ts";
import { coarser, highestIn, pointsIn } from "./team-points.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe("through the routes", () => {
  let fixture: ControlFixture;
  beforeEach(async () => {
    fixture = await ControlFixture.open();
  });
  afterEach(() => fixture[Symbol.asyncDispose]());

  interface Metric {
    timestamp: string;
    timestampUnix: number;
    concurrentSandboxes: number;
    sandboxStartRate: number;
  }

  const pathOf = (query: string, teamId = fixture.firstRun.teamId) => `/teams/${teamId}/metrics${query}`;
  const since = (seconds: number) => `?start=${NOW / 1000 + seconds}`;

  async function metrics(query = since(0)): Promise<Metric[]> {
    const { status, body } = await fixture.call("GET", pathOf(query));
    expect(status).toBe(200);
    return body as unknown as Metric[];
  }

  const running = async (query?: string) => (await metrics(query)).map((metric) => metric.concurrentSandboxes);
  const starts = async (query?: string) => (await metrics(query)).map((metric) => metric.sandboxStartRate * 5);

  /** The highest of both metrics: values, and seconds since the test began. */
  async function highest(query = since(0)): Promise<[number, number][]> {
    const found: [number, number][] = [];
    for (const metric of ["concurrent_sandboxes", "sandbox_start_rate"]) {
      const { status, body } = await fixture.call("GET", pathOf(`/max${query}&metric=${metric}`));
      expect(status).toBe(200);
      const { value, timestampUnix } = body as unknown as { value: number; timestampUnix: number };
      found.push([value, timestampUnix - NOW / 1000]);
    }
    return found;
  }

  const kill = async (id: string) => expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
  const post = async (path: string, status: number, body?: unknown) =>
    expect((await fixture.call("POST", path, body)).status).toBe(status);

  test("each step has the highest number of running sandboxes and the start rate", async () => {
    const first = await fixture.create({ timeout: 600 });
    await fixture.create({ timeout: 600 });
    await fixture.advance(METRIC_EVERY_MS);
    await kill(first);
    await fixture.advance(METRIC_EVERY_MS);
    await fixture.create({ timeout: 600 });
    await fixture.advance(2 * METRIC_EVERY_MS);
    expect(await running()).toEqual([2, 2, 2, 2, 2]);
    expect(await starts()).toEqual([2, 0, 1, 0, 0]);
    expect(await highest()).toEqual([
      [2, 0],
      [0.4, 0],
    ]);
    expect(await running(since(11))).toEqual([2, 2, 2]);
    const [newest] = (await metrics()).slice(-1);
    expect(newest).toMatchObject({
      timestamp: new Date(NOW + 20_000).toISOString(),
      timestampUnix: NOW / 1000 + 20,
    });
  });

  test("a short-lived sandbox is counted, and a paused one no longer counts as running", async () => {
    const id = await fixture.create({ timeout: 600 });
    await fixture.advance(METRIC_EVERY_MS);
    for (let times = 0; times < 3; times++) await kill(await fixture.create());
    await fixture.advance(METRIC_EVERY_MS);
    await post(`/sandboxes/${id}/pause`, 204);
    await fixture.advance(METRIC_EVERY_MS);
    expect(await running()).toEqual([1, 2, 1, 0]);
    await post(`/sandboxes/${id}/resume`, 201, { timeout: 600 });
    await post(`/sandboxes/${id}/fork`, 201, { count: 2, timeout: 600 });
    await fixture.advance(METRIC_EVERY_MS);
    await post(`/sandboxes/${id}/pause`, 204);
    await kill(id);
    await fixture.advance(METRIC_EVERY_MS);
    expect(await running()).toEqual([1, 2, 1, 3, 3, 2]);
    expect(await starts()).toEqual([1, 3, 0, 3, 0, 0]);
    expect(await highest()).toEqual([
      [3, 15],
      [0.6, 5],
    ]);
  });

  test("history is kept after a restart, and sandboxes that ended meanwhile do not count", async () => {
    const [kept, gone] = [await fixture.create({ timeout: 600 }), await fixture.create({ timeout: 600 })];
    await fixture.advance(METRIC_EVERY_MS);
    await fixture.restart();
    expect(await running()).toEqual([2, 2]);
    await fixture.advance(METRIC_EVERY_MS);
    fixture.host.lose(gone);
    await fixture.restart();
    await fixture.advance(METRIC_EVERY_MS);
    expect(await running()).toEqual([2, 2, 2, 1]);
    expect(await starts()).toEqual([2, 0, 0, 0]);
    await kill(kept);
    await fixture.advance(METRIC_EVERY_MS);
    expect(await running(since(15))).toEqual([1, 0]);
  });

  test("a missed change is corrected from the rows, except for transitions in progress", async () => {
    const id = await fixture.create({ timeout: 600 });
    const row = await fixture.store.sandboxes.byId(id);
    await fixture.passBy(METRIC_EVERY_MS);
    await fixture.store.sandboxes.kill(row ?? { id, executionId: "" });
    await fixture.passBy(METRIC_EVERY_MS);
    expect((await running()).at(-1)).toBe(1);
    await fixture.passBy(2 * METRIC_EVERY_MS);
    expect((await running()).at(-1)).toBe(0);
    expect((await starts()).reduce((sum, count) => sum + count, 0)).toBe(1);
  });

  test("an idle team writes no rows, however many sandboxes it has", async () => {
    for (let nth = 0; nth < 50; nth++) await fixture.create({ timeout: 86_400 });
    await fixture.control.settled();
    await fixture.call("GET", pathOf(""));
    const rows = () => fixture.store.teamActivity.around(fixture.firstRun.teamId, 0, Number.MAX_SAFE_INTEGER);
    const before = await rows();
    expect(before).toHaveLength(1);
    await fixture.passBy(60_000);
    expect(await rows()).toEqual(before);
    expect(new Set(await running())).toEqual(new Set([50]));
  });

  test("metrics of another or an unknown team are rejected", async () => {
    await fixture.create();
    const key = await fixture.anotherTeam("strangers");
    for (const path of ["", "/max?metric=sandbox_start_rate"]) {
      const mine = await fixture.call("GET", pathOf(path), undefined, { "X-API-Key": key });
      const nobodys = await fixture.call("GET", pathOf(path, fixture.ids.uuid()), undefined, { "X-API-Key": key });
      expect([mine.status, nobodys.status]).toEqual([403, 403]);
      expect(mine.body.message.replace(fixture.firstRun.teamId, "")).toBe(
        nobodys.body.message.replace(/[0-9a-f-]{36}/, ""),
      );
      expect((await fixture.call("GET", pathOf(path, "default"))).status).toBe(400);
    }
    expect((await fixture.call("GET", pathOf("", fixture.firstRun.teamId.toUpperCase()))).status).toBe(200);
  });

  test.each([
    ["?start=10&end=9", "start (10) is after end (9)"],
    ["?start=yesterday", "start"],
    ["/max", "metric"],
    ["/max?metric=cpu", "metric"],
    ["/max?metric=sandbox_start_rate&start=10&end=9", "is after end"],
  ])("%s is refused", async (query, reason) => {
    const { status, body } = await fixture.call("GET", pathOf(query));
    expect([status, body.message]).toEqual([400, expect.stringContaining(reason)]);
  });

  test("a week is the default and maximum span, and starts no earlier than the record", async () => {
    expect((await metrics("")).map(({ timestampUnix }) => timestampUnix)).toEqual([NOW / 1000]);
    await fixture.advance(10 * DAY_MS);
    await fixture.create({ timeout: 864_000 });
    await fixture.advance(DAY_MS);
    const points = await metrics("");
    expect(points).toEqual(await metrics("?start=0&end=999999999999"));
    expect(points[0]?.timestampUnix).toBe((fixture.clock.now() - ACTIVITY_KEPT_MS) / 1000);
    expect(points).toHaveLength((7 * 24 * 60) / 15 + 1);
    expect(points.filter(({ concurrentSandboxes }) => concurrentSandboxes > 0)).toHaveLength((24 * 60) / 15 + 1);
    expect(await metrics("?end=1000")).toEqual([]);
    const fresh = await fixture.anotherTeam("fresh");
    const team = await fixture.store.people.teamBySlug("fresh");
    const { body } = await fixture.call("GET", pathOf("", team?.id), undefined, { "X-API-Key": fresh });
    expect<unknown>(body).toEqual([]);
  });

  test("old metrics are coarser, but keep every start and the highest value", async () => {
    for (let minute = 0; minute < 40; minute++) {
      const ids = await Promise.all([fixture.create({ timeout: 864_000 }), fixture.create({ timeout: 864_000 })]);
      if (minute === 20) ids.push(...(await Promise.all([1, 2, 3].map(() => fixture.create({ timeout: 864_000 })))));
      await fixture.advance(20_000);
      for (const id of ids.slice(minute % 4 === 0 ? 1 : 0)) await kill(id);
      await fixture.advance(40_000);
    }
    const before = await highest("?start=0");
    expect(before.map(([value]) => value)).toEqual([12, 1]);
    const rows = () => fixture.store.teamActivity.around(fixture.firstRun.teamId, 0, Number.MAX_SAFE_INTEGER);
    const sum = (found: TeamActivity[]) => found.reduce((total, row) => total + row.starts, 0);
    const [dense, total] = [await rows(), sum(await rows())];
    for (const ageMs of [2 * HOUR_MS, 7 * HOUR_MS, 13 * HOUR_MS, 2 * DAY_MS]) {
      await fixture.advance(NOW + ageMs - fixture.clock.now());
      await sweepActivity(fixture.store, fixture.clock.now());
      const left = await rows();
      expect(sum(left)).toBe(total);
      const { stepMs = 0 } = AGING.find(({ olderThanMs }) => ageMs > olderThanMs) ?? {};
      expect(new Set(left.map((row) => row.stepMs))).toEqual(new Set([stepMs]));
      expect((await highest("?start=0")).map(([value]) => value)).toEqual([12, 1]);
      expect((await running("")).at(-1)).toBe(10);
    }
    expect(dense.length).toBeGreaterThan(70);
    expect((await rows()).length).toBeLessThanOrEqual(9);
    await fixture.advance(8 * DAY_MS);
    await sweepActivity(fixture.store, fixture.clock.now());
    expect(await rows()).toHaveLength(1);
    expect(new Set(await running(""))).toEqual(new Set([10]));
  });
});

test("rows coarsened in any order of rounds keep the meaning of the fine ones", () => {
  const random = seededRandom(7);
  const fine: TeamActivity[] = [];
  let running = 3;
  for (let at = 0; at < 2_000 * METRIC_EVERY_MS; at += METRIC_EVERY_MS * (1 + Math.floor(random() * 9))) {
    const [opening, starts] = [running, Math.floor(random() * 20)];
    const peak = opening + Math.floor(random() * (starts + 1));
    running = Math.floor(random() * (peak + 1));
    fine.push({ teamId: "t", at, stepMs: METRIC_EVERY_MS, opening, closing: running, peak, starts, busiest: starts });
  }
  let rows = fine;
  for (const stepMs of [30_000, 60_000, 300_000]) {
    const steps = Map.groupBy(rows, ({ at }) => Math.floor(at / stepMs) * stepMs);
    rows = [...steps].map(([at, [first, ...rest]]) => {
      if (first === undefined) throw new Error("a group has a row");
      const half = Math.floor(rest.length / 2);
      const made = coarser([first, ...rest.slice(0, half)], at, stepMs);
      return half === rest.length ? made : coarser([made, ...rest.slice(half)], at, stepMs);
    });
    const window = { from: 0, to: 2_000 * METRIC_EVERY_MS, now: 2 * DAY_MS };
    expect(pointsIn(rows, window)).toEqual(pointsIn(fine, window));
    for (const metric of ["concurrent_sandboxes", "sandbox_start_rate"] as const) {
      expect(highestIn(rows, metric, window).value).toBe(highestIn(fine, metric, window).value);
    }
  }
});
