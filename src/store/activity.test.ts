/** Logs, metrics, events and webhooks in SQLite and in Postgres: one contract, two engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { LogLine } from "../contract/sandbox-log.ts";
import type { MetricBlock } from "./metric-blocks.ts";
import type { EventFilter } from "./sandbox-events.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, NOW, template } from "./testing/rows.ts";
import type { Delivery, DeliveryFilter } from "./webhooks.ts";

const line = (at: number, message: string): LogLine => ({ at, level: "info", message, fields: { logger: "x" } });
const page = (
  sandboxId: string,
  lines: LogLine[],
  more: { teamId?: string; bytes?: number; position?: string } = {},
) => ({
  sandboxId,
  lines,
  teamId: "team-1",
  bytes: 100,
  position: "",
  ...more,
});
const messages = (pages: LogLine[][]) => pages.flat().map(({ message }) => message);

const sample = (at: number) => ({
  at,
  cpuCount: 2,
  cpuUsedPct: 12.34,
  memUsed: 5e9,
  memTotal: 8e9,
  memCache: 1e9,
  diskUsed: 1e10,
  diskTotal: 2e13,
});
const block = (sandboxId: string, blockAt: number, more: Partial<MetricBlock> = {}): MetricBlock => ({
  sandboxId,
  teamId: "team-1",
  blockAt,
  stepMs: 5000,
  samples: [sample(blockAt), sample(blockAt + 5000)],
  ...more,
});

const event = (id: string, at: number, type = "sandbox.lifecycle.created", sandboxId = "i1", teamId = "team-1") => ({
  id,
  teamId,
  sandboxId,
  executionId: "run",
  templateId: "t",
  buildId: "b",
  type,
  at,
  position: at,
  detail: { sandbox_metadata: { ключ: "\u0000" } },
});
const all: EventFilter = {
  teamId: "team-1",
  sandboxId: undefined,
  types: [],
  since: 0,
  ascending: true,
  offset: 0,
  limit: 100,
};

const webhook = (id: string, teamId = "team-1") => ({
  id,
  teamId,
  name: "n",
  url: "https://a.example/",
  events: ["sandbox.lifecycle.created"],
  secret: "s",
  enabled: true,
  createdAt: NOW,
});
const delivery = (id: string, more: Partial<Delivery> = {}): Delivery => ({
  id,
  webhookId: "w1",
  eventId: `e-${id}`,
  eventType: "sandbox.lifecycle.created",
  sandboxId: "i1",
  eventAt: NOW,
  status: "pending",
  nextAt: NOW,
  attempts: [],
  ...more,
});
const tried = { at: NOW, durationMs: 3, statusCode: 500, success: false, error: "answered 500" };
const every: DeliveryFilter = {
  webhookId: "w1",
  from: 0,
  to: Number.MAX_SAFE_INTEGER,
  statuses: [],
  eventType: undefined,
  ascending: false,
  after: undefined,
  limit: 100,
};

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["team-1", "team-2"]) {
        await store.people.addTeam({ id, name: id, slug: id, limits: {}, createdAt: NOW });
      }
    });
    afterEach(() => store.close());

    describe("logs", () => {
      test("are read in either direction, by their own team, whatever characters they hold", async () => {
        const odd = line(12, "zero \u0000, half \ud800, whole 🙂");
        await store.sandboxLogs.add(page("i1", [line(10, "a"), line(10, "b"), odd], { position: "j:3" }));
        await store.sandboxLogs.add(page("i1", [line(20, "c")]));
        await store.sandboxLogs.add(page("i2", [line(15, "another's")]));
        const read = async (from: number, to: number, newestFirst: boolean, limit: number, team = "team-1") =>
          messages(await store.sandboxLogs.between(team, "i1", { from, to, newestFirst, limit }));
        expect(await read(0, 99, false, 9)).toEqual(["a", "b", odd.message, "c"]);
        expect(await read(0, 99, true, 1)).toEqual(["c"]);
        expect(await read(13, 99, false, 9)).toEqual(["c"]);
        expect(await read(0, 19, true, 9)).toEqual(["a", "b", odd.message]);
        expect(await read(0, 99, false, 9, "team-2")).toEqual([]);
      });

      test("store their length and the position up to which they were read", async () => {
        expect(await store.sandboxLogs.extentOf("i1")).toEqual({ lines: 0, bytes: 0, lastAt: 0 });
        expect(await store.sandboxLogs.positionOf("i1")).toBeUndefined();
        await store.sandboxLogs.add(page("i1", [line(10, "a"), line(11, "b")], { position: "j:2" }));
        await store.sandboxLogs.add(page("i1", [line(NOW, "c")]));
        expect(await store.sandboxLogs.extentOf("i1")).toEqual({ lines: 3, bytes: 200, lastAt: NOW });
        expect(await store.sandboxLogs.positionOf("i1")).toBe("j:2");
      });

      test("drop the oldest lines per sandbox, per team, and by age in bounded steps", async () => {
        for (let at = 1; at <= 5; at++) await store.sandboxLogs.add(page("i1", [line(at * 10, `l${at}`)]));
        await store.sandboxLogs.add(page("i2", [line(5, "of the other team")], { teamId: "team-2", bytes: 5000 }));
        expect(await store.sandboxLogs.removeOldest("i1")).toEqual({ lines: 1, bytes: 100 });
        expect(await store.sandboxLogs.removeOldest("i9")).toBeUndefined();
        expect(await store.sandboxLogs.teamsAbove(4000)).toEqual(["team-2"]);
        expect(await store.sandboxLogs.removeOldestOfTeam("team-2", 9)).toBe(1);
        expect(await store.sandboxLogs.removeBefore(40, 1)).toBe(1);
        expect(await store.sandboxLogs.removeBefore(40, 9)).toBe(1);
        const all = { from: 0, to: 99, newestFirst: false, limit: 9 };
        expect(messages(await store.sandboxLogs.between("team-1", "i1", all))).toEqual(["l4", "l5"]);
      });
    });

    describe("metrics", () => {
      test("are replaced block by block and read by their own team", async () => {
        await store.metricBlocks.put(block("i1", 0));
        await store.metricBlocks.put(block("i1", 600_000));
        await store.metricBlocks.put(block("i1", 600_000, { samples: [sample(600_001)] }));
        const read = await store.metricBlocks.between("team-1", "i1", 0, 600_000);
        expect(read.map(({ blockAt, samples }) => [blockAt, samples.length])).toEqual([
          [0, 2],
          [600_000, 1],
        ]);
        expect(read[0]?.samples[0]).toEqual(sample(0));
        expect((await store.metricBlocks.newest("team-1", "i1"))?.blockAt).toBe(600_000);
        expect((await store.metricBlocks.at("i1", 0))?.samples).toHaveLength(2);
        expect(await store.metricBlocks.newest("team-2", "i1")).toBeUndefined();
        expect(await store.metricBlocks.between("team-2", "i1", 0, 600_000)).toEqual([]);
      });

      test("find blocks to thin and blocks to remove", async () => {
        for (const at of [0, 600_000, 1_200_000]) await store.metricBlocks.put(block("i1", at));
        await store.metricBlocks.put(block("i1", 600_000, { stepMs: 30_000 }));
        expect((await store.metricBlocks.denserThan(30_000, 1_200_000, 9)).map(({ blockAt }) => blockAt)).toEqual([0]);
        expect(await store.metricBlocks.removeBefore(1_200_000, 1)).toBe(1);
        expect(await store.metricBlocks.removeBefore(1_200_000, 9)).toBe(1);
      });

      test("are stored for running sandboxes only", async () => {
        await store.templates.add(template("template1"));
        for (const state of ["running", "killing", "paused", "snapshotting"] as const) {
          await store.sandboxes.add(aSandbox(`i-${state}`, { state }));
        }
        expect(await store.metricBlocks.measurable()).toEqual([
          { id: "i-running", teamId: "team-1", cpuCount: 2, memoryMB: 1024 },
          { id: "i-snapshotting", teamId: "team-1", cpuCount: 2, memoryMB: 1024 },
        ]);
      });
    });

    describe("events", () => {
      test("are listed in either order, by sandbox and by type, page by page, by their own team", async () => {
        const killed = "sandbox.lifecycle.killed";
        await store.sandboxEvents.add(event("e1", 1));
        await store.sandboxEvents.add(event("e2", 2, killed));
        await store.sandboxEvents.add(event("e3", 3, killed, "i2"));
        await store.sandboxEvents.add(event("e4", 4, killed, "i3", "team-2"));
        const ids = async (filter: Partial<EventFilter>) =>
          (await store.sandboxEvents.list({ ...all, ...filter })).map(({ id }) => id);
        expect(await ids({})).toEqual(["e1", "e2", "e3"]);
        expect(await ids({ ascending: false, offset: 1, limit: 1 })).toEqual(["e2"]);
        expect(await ids({ sandboxId: "i1" })).toEqual(["e1", "e2"]);
        expect(await ids({ types: [killed] })).toEqual(["e2", "e3"]);
        expect(await ids({ types: ["sandbox.lifecycle"] })).toEqual([]);
        expect(await ids({ since: 3 })).toEqual(["e3"]);
        expect(await ids({ sandboxId: "i3" })).toEqual([]);
        expect(await store.sandboxEvents.byId("e1")).toEqual(event("e1", 1));
        expect(await store.sandboxEvents.removeBefore(3, 1)).toBe(1);
        expect(await ids({})).toEqual(["e2", "e3"]);
      });
    });

    describe("webhooks", () => {
      test("are added, changed and removed, and their deliveries with them", async () => {
        await store.webhooks.add(webhook("w1"));
        await store.webhooks.add(webhook("w2", "team-2"));
        await store.webhooks.replace({ ...webhook("w1"), name: "new", enabled: false, events: [] });
        expect(await store.webhooks.of("team-1")).toEqual([
          { ...webhook("w1"), name: "new", enabled: false, events: [] },
        ]);
        await store.webhooks.addDelivery(delivery("d1"));
        expect(await store.webhooks.remove("team-2", "w1")).toBe(false);
        expect(await store.webhooks.remove("team-1", "w1")).toBe(true);
        expect(await store.webhooks.waiting()).toEqual([]);
      });

      test("list due deliveries, the most urgent first", async () => {
        for (const id of ["w1", "w2"]) await store.webhooks.add(webhook(id));
        await store.webhooks.addDelivery(delivery("d1", { nextAt: NOW + 10 }));
        await store.webhooks.addDelivery(delivery("d2", { nextAt: NOW + 5 }));
        await store.webhooks.addDelivery(delivery("d3", { webhookId: "w2", nextAt: NOW }));
        await store.webhooks.addDelivery(delivery("d4", { webhookId: "w2", nextAt: NOW, status: "failed" }));
        expect(await store.webhooks.waiting()).toEqual([
          { webhookId: "w2", nextAt: NOW, count: 1 },
          { webhookId: "w1", nextAt: NOW + 5, count: 2 },
        ]);
        expect((await store.webhooks.due("w1", NOW + 5, 9)).map(({ id }) => id)).toEqual(["d2"]);
        expect(await store.webhooks.waitingFor("w1")).toBe(2);
      });

      test("list attempts page by page in either order, and drop old and excess ones", async () => {
        await store.webhooks.add(webhook("w1"));
        for (const [nth, status] of (["success", "failed", "failed", "pending"] as const).entries()) {
          await store.webhooks.addDelivery(
            delivery(`d${nth}`, { status, eventAt: NOW + (nth > 1 ? 1 : 0), attempts: [tried] }),
          );
        }
        await store.webhooks.addDelivery(delivery("d9"));
        const ids = async (filter: Partial<DeliveryFilter>) =>
          (await store.webhooks.deliveries({ ...every, ...filter })).map(({ id }) => id);
        expect(await ids({})).toEqual(["d2", "d3", "d0", "d1"]);
        expect(await ids({ ascending: true })).toEqual(["d0", "d1", "d2", "d3"]);
        expect(await ids({ after: { eventAt: NOW + 1, id: "d2" }, limit: 2 })).toEqual(["d3", "d0"]);
        expect(await ids({ ascending: true, after: { eventAt: NOW, id: "d1" } })).toEqual(["d2", "d3"]);
        expect(await ids({ statuses: ["failed"] })).toEqual(["d2", "d1"]);
        expect(await ids({ from: NOW + 1 })).toEqual(["d2", "d3"]);
        expect(await ids({ eventType: "sandbox.lifecycle.killed" })).toEqual([]);
        await store.webhooks.noteAttempt(delivery("d9", { status: "success", attempts: [tried, tried] }));
        expect((await store.webhooks.deliveries(every)).find(({ id }) => id === "d9")?.attempts).toEqual([
          tried,
          tried,
        ]);
        expect(await store.webhooks.removeDeliveriesBeyond(4, 9)).toBe(1);
        expect(await store.webhooks.removeDeliveriesBeyond(4, 9)).toBe(0);
        expect(await store.webhooks.removeDeliveriesBefore(NOW + 1, 9)).toBe(2);
        expect(await ids({})).toEqual(["d2", "d3"]);
      });
    });
  });
}
