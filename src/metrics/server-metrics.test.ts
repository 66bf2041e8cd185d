import { afterEach, expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import type { Host } from "../contract/internal/host.ts";
import {
  METRIC_EVENTS_MAX,
  METRIC_TEAMS_MAX,
  METRIC_TEMPLATES_MAX,
  type Readings,
  ServerMetrics,
} from "./server-metrics.ts";
import { EMPTY_READINGS } from "./testing/empty-readings.ts";

const open: ServerMetrics[] = [];
afterEach(() => {
  for (const metrics of open.splice(0)) metrics.close();
});

function metricsOf(
  readings: Partial<Readings> = {},
  read = async () => ({ ...EMPTY_READINGS, ...readings }),
): ServerMetrics {
  const metrics = new ServerMetrics({ version: "1.2.3", read });
  open.push(metrics);
  return metrics;
}

async function samplesOf(metrics: ServerMetrics, prefix: string): Promise<string[]> {
  return (await metrics.text()).split("\n").filter((line) => line.startsWith(prefix));
}

test("creates are counted by origin, other operations by name, failures by status", async () => {
  const metrics = metricsOf();
  const outcomes = ["ready", "boot", "ready"] as const;
  let created = 0;
  const host: Partial<Host> = {
    create: async () => ({ id: "i1", origin: outcomes[created++] ?? "boot" }),
    pause: async () => undefined,
    resume: () => Promise.reject(new Fault(503, "busy")),
    snapshot: async () => undefined,
    destroy: () => Promise.reject(new Error("unexpected")),
    build: async () => ({ isReady: false, reason: "a step failed" }) as never,
  };
  metrics.watchHost(host as Host);
  for (const _ of outcomes) await host.create?.({} as never);
  await host.pause?.("i1", "c1", { memory: true });
  await host.snapshot?.("i1", "c1", { memory: true });
  await host.snapshot?.("i1", "c1", { memory: true, temporary: true });
  await host.build?.({} as never);
  await expect(host.resume?.({} as never)).rejects.toThrow("busy");
  await expect(host.destroy?.("i1")).rejects.toThrow("unexpected");
  expect(await samplesOf(metrics, "sandlot_create_seconds_count")).toEqual([
    'sandlot_create_seconds_count{origin="ready"} 2',
    'sandlot_create_seconds_count{origin="boot"} 1',
  ]);
  expect(await samplesOf(metrics, "sandlot_operation_seconds_count")).toEqual(
    ["pause", "snapshot", "fork"].map((operation) => `sandlot_operation_seconds_count{operation="${operation}"} 1`),
  );
  const failures = await samplesOf(metrics, "sandlot_operation_failures_total");
  expect(failures.filter((line) => !line.endsWith(" 0"))).toEqual([
    'sandlot_operation_failures_total{operation="resume",status="503"} 1',
    'sandlot_operation_failures_total{operation="destroy",status="500"} 1',
  ]);
  expect(await samplesOf(metrics, "sandlot_build_seconds_count")).toEqual([
    'sandlot_build_seconds_count{outcome="failed"} 1',
  ]);
});

test("failures that alerts count begin at zero, for each operation and route", async () => {
  const metrics = metricsOf();
  metrics.watchHost({} as Host);
  metrics.watchWakes({ wake: async () => ({}) });
  metrics.watchRoutes(["GET /sandboxes"]);
  const operations = ["create", "pause", "resume", "snapshot", "fork", "destroy", "build", "wake"];
  expect(await samplesOf(metrics, "sandlot_operation_failures_total")).toEqual(
    operations.flatMap((operation) =>
      [500, 503, 507].map(
        (status) => `sandlot_operation_failures_total{operation="${operation}",status="${status}"} 0`,
      ),
    ),
  );
  expect(await samplesOf(metrics, "sandlot_requests_total")).toEqual([
    'sandlot_requests_total{route="GET /sandboxes",status="500"} 0',
    'sandlot_requests_total{route="none",status="500"} 0',
  ]);
});

test("only wakes that wake a sandbox are counted", async () => {
  const metrics = metricsOf();
  const replies = [{ woken: true }, { refused: "not-found" }];
  const directory = { wake: async () => replies.shift() ?? {} };
  metrics.watchWakes(directory);
  await directory.wake();
  await directory.wake();
  expect(await samplesOf(metrics, "sandlot_operation_seconds_count")).toEqual([
    'sandlot_operation_seconds_count{operation="wake"} 1',
  ]);
});

test("calls to the store are counted by table, and transactions", async () => {
  const metrics = metricsOf();
  const store = {
    keys: { byId: async () => 1, all: async () => 2 },
    transaction: async (work: () => unknown) => work(),
  };
  metrics.watchStore(store);
  expect(await Promise.all([store.keys.byId(), store.keys.all(), store.transaction(() => 3)])).toEqual([1, 2, 3]);
  expect(await samplesOf(metrics, "sandlot_store_seconds_count")).toEqual([
    'sandlot_store_seconds_count{table="keys"} 2',
    'sandlot_store_seconds_count{table="transaction"} 1',
  ]);
});

test("requests are counted by route and status, other warnings and errors by event", async () => {
  const metrics = metricsOf();
  const request = { level: "info", event: "request", status: 200, ms: 3, route: "GET /sandboxes" } as const;
  metrics.countLogEntry(request);
  metrics.countLogEntry({ ...request, status: 404, route: undefined });
  metrics.countLogEntry({ level: "error", event: "the relay ended", how: "SIGKILL" });
  metrics.countLogEntry({ level: "info", event: "a note" });
  expect(await samplesOf(metrics, "sandlot_requests_total")).toEqual([
    'sandlot_requests_total{route="GET /sandboxes",status="200"} 1',
    'sandlot_requests_total{route="none",status="404"} 1',
  ]);
  expect(await samplesOf(metrics, "sandlot_log_events_total")).toEqual([
    'sandlot_log_events_total{level="error",event="the relay ended"} 1',
  ]);
});

test("reports of edge and relay are added up; names and numbers beyond reason are not", async () => {
  const metrics = metricsOf();
  const names = Array.from({ length: 1_000 }, (_, nth) => [`made-up-${nth}`, 1] as const);
  metrics.countEdgeReport({ requests: { command: 2, files: -1 }, refusals: { "closed-port": 1 }, starts: [0.004] });
  metrics.countEdgeReport({ requests: { command: 1, service: Number.NaN }, refusals: {}, starts: [] });
  metrics.countRelayReport({ allowed: 3, forbidden: 1 });
  metrics.countDnsDecision("allowed");
  expect(await samplesOf(metrics, "sandlot_edge_re")).toEqual([
    'sandlot_edge_requests_total{class="command"} 3',
    'sandlot_edge_refusals_total{reason="closed-port"} 1',
  ]);
  expect(await samplesOf(metrics, "sandlot_command_start_seconds_count")).toEqual([
    "sandlot_command_start_seconds_count 1",
  ]);
  expect(await samplesOf(metrics, "sandlot_relay")).toEqual([
    'sandlot_relay_connections_total{decision="allowed"} 3',
    'sandlot_relay_connections_total{decision="forbidden"} 1',
  ]);
  expect(await samplesOf(metrics, "sandlot_dns")).toEqual(['sandlot_dns_queries_total{decision="allowed"} 1']);
  const hostile = metricsOf();
  hostile.countRelayReport(Object.fromEntries(names));
  expect((await samplesOf(hostile, "sandlot_relay")).length).toBeLessThan(100);
});

test("sandboxes are counted by state and team; paused ones hold no memory", async () => {
  const row = { team: "one", state: "running", count: 2, memoryMB: 1024 };
  const metrics = metricsOf({ sandboxes: [row, { ...row, state: "paused", count: 5, memoryMB: 4096 }] });
  expect(await samplesOf(metrics, "sandlot_sandboxes")).toEqual([
    'sandlot_sandboxes{state="running"} 2',
    'sandlot_sandboxes{state="paused"} 5',
  ]);
  expect(await samplesOf(metrics, "sandlot_team_sandboxes")).toEqual(['sandlot_team_sandboxes{team="one"} 2']);
  expect(await samplesOf(metrics, "sandlot_memory_promised_bytes")).toEqual([
    `sandlot_memory_promised_bytes ${1024 ** 3}`,
  ]);
});

test("a thousand teams, templates and events add a bounded number of series", async () => {
  const many = Array.from({ length: 1_000 }, (_, nth) => nth);
  const metrics = metricsOf({
    sandboxes: many.map((nth) => ({ team: `team-${nth}`, state: "running", count: nth, memoryMB: 1 })),
    pool: {
      templates: many.map((nth) => ({ templateId: `t${nth}`, ready: nth, making: 0, target: nth, floor: 0 })),
      hits: 0,
      joined: 0,
      misses: 0,
    },
  });
  for (const nth of many) metrics.countLogEntry({ level: "warn", event: `event ${nth}` });
  const teams = await samplesOf(metrics, "sandlot_team_sandboxes");
  expect(teams).toHaveLength(METRIC_TEAMS_MAX + 1);
  expect(teams[0]).toBe('sandlot_team_sandboxes{team="team-999"} 999');
  const all = (1_000 * 999) / 2;
  const values = teams.map((line) => Number(line.split(" ").at(-1)));
  expect(values.reduce((sum, value) => sum + value, 0)).toBe(all);
  expect(await samplesOf(metrics, "sandlot_ready_pool_ready")).toHaveLength(METRIC_TEMPLATES_MAX + 1);
  expect(await samplesOf(metrics, "sandlot_log_events_total")).toHaveLength(METRIC_EVENTS_MAX + 1);
});

test("texts that are asked for at once are read once; a failed reading fails none after it", async () => {
  let reads = 0;
  const read = async () => {
    reads += 1;
    if (reads === 1) throw new Error("the disk is gone");
    return EMPTY_READINGS;
  };
  const metrics = metricsOf({}, read);
  await expect(metrics.text()).rejects.toThrow("the disk is gone");
  const [one, other] = await Promise.all([metrics.text(), metrics.text()]);
  expect(one).toBe(other);
  expect(one).toContain('sandlot_info{version="1.2.3"} 1\n');
  expect(reads).toBe(2);
});
