/**
 * Each alert is provoked on the server's own metrics: they are healthy for ten minutes, then something happens, and
 * promtool evaluates the rules on the texts that a scrape would have got in each minute. In long runs only, because
 * promtool is a package of its own. prometheus.test.ts provokes two alerts on a running server.
 */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { Fault } from "../../../src/contract/fault.ts";
import type { Host } from "../../../src/contract/internal/host.ts";
import { serveMetrics } from "../../../src/metrics/metrics-listener.ts";
import { type Readings, ServerMetrics } from "../../../src/metrics/server-metrics.ts";
import { EMPTY_READINGS } from "../../../src/metrics/testing/empty-readings.ts";
import { run } from "../../../src/system/command.ts";

const RULES = join(import.meta.dir, "../../../deploy/prometheus/sandlot.rules.yml");
const MINUTE_MS = 60_000;
const HEALTHY_MINUTES = 10;
/** Longer than any window and `for:` of the rules together. */
const PROVOKED_MINUTES = 25;
const TEST_MS = 120_000;
const BASE = { templateId: "base", ready: 2, making: 0, target: 2, floor: 2 };
const HEALTHY: Readings = {
  ...EMPTY_READINGS,
  slots: { total: 4093, free: 4000 },
  disk: { totalBytes: 100, freeBytes: 50 },
  dataDisk: { totalBytes: 100, freeBytes: 50 },
  pool: { templates: [BASE], hits: 0, joined: 0, misses: 0 },
};

/** The metrics of a server, and the parts that feed them. Its clock stands still unless something takes time. */
class Watched implements AsyncDisposable {
  readings = HEALTHY;
  /** What the next calls of the host and the store do. */
  work: () => Promise<unknown> = async () => undefined;
  readonly metrics = new ServerMetrics({ version: "1.2.3", read: async () => this.readings });
  readonly host = {
    create: async () => {
      await this.work();
      return { id: "i1", origin: "boot" };
    },
    pause: () => this.work(),
    resume: () => this.work(),
  } as unknown as Host;
  readonly store = { sandboxes: { byId: () => this.work() } };
  #listener: { stop(): Promise<void> } | undefined;
  #url = "";

  static async open(): Promise<Watched> {
    const watched = new Watched();
    watched.metrics.watchHost(watched.host);
    watched.metrics.watchStore(watched.store);
    watched.metrics.watchRoutes(["GET /sandboxes"]);
    const listen = { hostname: "127.0.0.1", port: freePort() };
    watched.#listener = await serveMetrics(listen, watched.metrics);
    watched.#url = `http://${listen.hostname}:${listen.port}/metrics`;
    return watched;
  }

  /** Undefined: the server does not answer. */
  async scrape(): Promise<string | undefined> {
    return await fetch(this.#url).then(
      (response) => response.text(),
      () => undefined,
    );
  }

  request(status: number): void {
    this.metrics.countLogEntry({ level: "info", event: "request", route: "GET /sandboxes", status, ms: 1 });
  }

  async stop(): Promise<void> {
    await this.#listener?.stop();
    this.#listener = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.metrics.close();
  }
}

let nowMs: number;
let clock: { mockRestore(): void };
beforeEach(() => {
  nowMs = performance.now();
  clock = spyOn(performance, "now").mockImplementation(() => nowMs);
});
afterEach(() => clock.mockRestore());

const takes = (ms: number) => async () => {
  nowMs += ms;
};
const fails = (status: number) => () => Promise.reject(new Fault(status, "as the test wants"));

interface Provocation {
  alert: string;
  /** Done in each minute of those that provoke the alert. */
  provoke(watched: Watched, minute: number): unknown;
  /** The minute of them in which the alert must fire. Default: the last. */
  firesAt?: number;
}

const PROVOCATIONS: Provocation[] = [
  { alert: "SandlotDown", provoke: (watched) => watched.stop() },
  {
    alert: "SandlotPartRestarted",
    provoke({ metrics }, minute) {
      const event = "an edge process ended with its connections; it is being restarted";
      if (minute % 5 === 0) metrics.countLogEntry({ level: "warn", event });
    },
  },
  {
    alert: "SandlotPartRestarted",
    provoke({ metrics }, minute) {
      const event = "the connection relay ended and is being restarted";
      if (minute % 5 === 0) metrics.countLogEntry({ level: "error", event });
    },
  },
  { alert: "SandlotMemoryShort", provoke: reading({ memory: { ...HEALTHY.memory, isShort: true } }) },
  { alert: "SandlotDiskLow", provoke: reading({ disk: { totalBytes: 100, freeBytes: 9 } }) },
  { alert: "SandlotDiskLow", provoke: reading({ dataDisk: { totalBytes: 100, freeBytes: 9 } }) },
  { alert: "SandlotSlotsLow", provoke: reading({ slots: { total: 4093, free: 400 } }) },
  { alert: "SandlotOperationsFail", provoke: failing("resume", 500) },
  { alert: "SandlotOperationsFail", provoke: failing("create", 507) },
  { alert: "SandlotOperationsFail", provoke: failing("pause", 503) },
  // Bursts between two scrapes, of failures that the server has never counted before.
  {
    alert: "SandlotOperationsFail",
    async provoke(watched, minute) {
      if (minute > 0) return await runHealthyMinute(watched);
      for (let nth = 0; nth < 100; nth++) await failing("resume", 500)(watched, minute);
    },
    firesAt: 5,
  },
  {
    alert: "SandlotRequestsFail",
    async provoke(watched, minute) {
      if (minute % 4 !== 0) return await runHealthyMinute(watched);
      for (let nth = 0; nth < 100; nth++) watched.request(500);
    },
    firesAt: 7,
  },
  {
    alert: "SandlotRequestsFail",
    provoke(watched) {
      for (const status of [500, 500, ...Array(98).fill(200)]) watched.request(status);
    },
  },
  {
    alert: "SandlotCreatesSlow",
    async provoke(watched) {
      watched.work = takes(3_000);
      await watched.host.create({} as never);
    },
  },
  {
    alert: "SandlotStoreSlow",
    async provoke(watched) {
      watched.work = takes(200);
      await watched.store.sandboxes.byId();
    },
  },
  {
    alert: "SandlotReadyPoolEmpty",
    provoke: reading({ pool: { ...HEALTHY.pool, templates: [{ ...BASE, ready: 0, making: 2 }] } }),
  },
];
/** These need other clocks, or several servers: they have tests of their own below. */
const TESTED_BELOW = ["SandlotRestarts", "SandlotEventLoopBlocked"];

function reading(change: Partial<Readings>): Provocation["provoke"] {
  return (watched) => {
    watched.readings = { ...HEALTHY, ...change };
  };
}

function failing(operation: "create" | "pause" | "resume", status: number): Provocation["provoke"] {
  return async (watched) => {
    watched.work = fails(status);
    await expect((watched.host[operation] as () => Promise<unknown>)()).rejects.toThrow("as the test wants");
  };
}

/** Everything that a healthy server does in a minute, and a refusal that is none of its faults. */
async function runHealthyMinute(watched: Watched): Promise<void> {
  watched.work = takes(1);
  await watched.host.create({} as never);
  await watched.host.pause("i1", "c1", { memory: true });
  await watched.store.sandboxes.byId();
  await failing("create", 503)(watched, 0);
  watched.request(200);
  watched.metrics.countLogEntry({ level: "warn", event: "another warning" });
}

describe.skipIf(!LONG)("on the metrics of a server", () => {
  test("each rule has a provocation", () => {
    const alerts = [...readFileSync(RULES, "utf8").matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
    const provoked = new Set([...PROVOCATIONS.map(({ alert }) => alert), ...TESTED_BELOW]);
    expect([...provoked].sort()).toEqual(alerts.sort() as string[]);
  });

  test.each(PROVOCATIONS)(
    "$alert fires when it is provoked, alone and not before",
    async ({ alert, provoke: each, firesAt = PROVOKED_MINUTES - 1 }) => {
      await using watched = await Watched.open();
      // The clock of this test would count as a delay.
      watched.metrics.close();
      const scrapes: (string | undefined)[] = [];
      for (let minute = 0; minute < HEALTHY_MINUTES + PROVOKED_MINUTES; minute++) {
        if (minute < HEALTHY_MINUTES) await runHealthyMinute(watched);
        else await each(watched, minute - HEALTHY_MINUTES);
        scrapes.push(await watched.scrape());
        nowMs += MINUTE_MS;
      }
      await expectFiring(scrapes, [
        [HEALTHY_MINUTES - 1, []],
        [HEALTHY_MINUTES + firesAt, [alert]],
      ]);
    },
    TEST_MS,
  );

  test(
    "SandlotRestarts fires after the third restart",
    async () => {
      clock.mockRestore();
      const servers = [await scrapeOfOtherProcess()];
      while (servers.length < 4) servers.push(await scrapeOfOtherProcess());
      const [first = "", second = "", third = "", fourth = ""] = servers;
      const scrapes = [...Array(HEALTHY_MINUTES).fill(first), second, third, fourth, fourth];
      await expectFiring(scrapes, [
        [HEALTHY_MINUTES - 1, []],
        [HEALTHY_MINUTES + 1, []],
        [HEALTHY_MINUTES + 2, ["SandlotRestarts"]],
      ]);
    },
    TEST_MS,
  );

  test(
    "SandlotEventLoopBlocked fires while the event loop is blocked for more than half a second",
    async () => {
      clock.mockRestore();
      await using watched = await Watched.open();
      const scrapes: (string | undefined)[] = [];
      for (let minute = 0; minute < 20; minute++) {
        // The text of a scrape is kept for a second, and the delay is measured twice a second.
        await Bun.sleep(1_100);
        if (minute > 4) {
          Bun.sleepSync(1_200);
          await Bun.sleep(1);
        }
        scrapes.push(await watched.scrape());
      }
      await expectFiring(scrapes, [
        [4, []],
        [scrapes.length - 1, ["SandlotEventLoopBlocked"]],
      ]);
    },
    TEST_MS,
  );
});

/** The metrics of a process that has just started. */
async function scrapeOfOtherProcess(): Promise<string> {
  const src = join(import.meta.dir, "../../../src/metrics");
  const program = `
    import { ServerMetrics } from ${JSON.stringify(join(src, "server-metrics.ts"))};
    import { EMPTY_READINGS } from ${JSON.stringify(join(src, "testing/empty-readings.ts"))};
    const metrics = new ServerMetrics({ version: "1.2.3", read: async () => EMPTY_READINGS });
    console.log((await metrics.text()).replaceAll(/^sandlot_.*\\n/gm, ""));
    metrics.close();`;
  return await run([process.execPath, "-e", program]);
}

/** The alerts that fire at these minutes, as promtool evaluates the rules. */
async function expectFiring(
  scrapes: readonly (string | undefined)[],
  expected: readonly [minute: number, alerts: readonly string[]][],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-alerts-"));
  try {
    const file = join(folder, "rules.test.yml");
    const series = seriesOf(scrapes);
    const promql_expr_test = expected.map(([minute, alerts]) => ({
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: `${minute}m`,
      exp_samples: alerts.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    }));
    const tests = [{ interval: "1m", input_series: series, promql_expr_test }];
    // Every JSON text is YAML.
    writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: "1m", tests }));
    expect(await run(["promtool", "test", "rules", file])).toContain("SUCCESS");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** One sample for each scrape, with the labels that Prometheus adds. */
function seriesOf(scrapes: readonly (string | undefined)[]): { series: string; values: string }[] {
  const values = new Map<string, string[]>();
  for (const [minute, text] of scrapes.entries()) {
    const lines = (text ?? "").split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    for (const line of [`up ${text === undefined ? 0 : 1}`, ...lines]) {
      const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const series = `${name}{${labels === "" ? "" : `${labels},`}instance="a",job="sandlot"}`;
      const own = values.get(series) ?? Array(scrapes.length).fill("_");
      own[minute] = value;
      values.set(series, own);
    }
  }
  return [...values].map(([series, own]) => ({ series, values: own.join(" ") }));
}
