/**
 * Resource use of a sandbox, measured from outside: close to what the sandbox sees itself, available soon after the
 * start, and readable after its end.
 */
import { describe, expect } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();
const cli = cliOfFile(server);
const MIB = 1024 * 1024;
/** Timeout for one of the next samples, on a busy machine. */
const WITHIN_MS = 40_000;
/** The start of the sandbox shortens the gap between the first two. */
const SAMPLES = LONG ? 6 : 3;

type Metrics = Awaited<ReturnType<Sandbox["getMetrics"]>>;

/** As the sandbox itself counts. */
async function inside(sandbox: Sandbox): Promise<Record<string, number>> {
  const response = await fetch(`${server().url}/metrics`, {
    headers: {
      host: `49983-${sandbox.sandboxId}.sandbox.test`,
      "X-Access-Token": await runtimeTokenOf(server(), sandbox.sandboxId),
    },
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, number>;
}

async function sampled(sandbox: Sandbox, isSo: (metrics: Metrics) => boolean, withinMs = 20_000): Promise<Metrics> {
  let metrics: Metrics = [];
  await until(
    () => `the metrics are so: ${JSON.stringify(metrics)}`,
    async () => {
      metrics = await sandbox.getMetrics();
      return isSo(metrics);
    },
    withinMs,
  );
  return metrics;
}

/** A process's time on a processor, and the time of the measurement. */
async function usedBy(sandbox: Sandbox, pid: number): Promise<{ ms: number; at: number }> {
  const { stdout } = await sandbox.commands.run(`cat /proc/${pid}/schedstat`);
  return { ms: Number(stdout.split(" ")[0]) / 1e6, at: Date.now() };
}

/** A sandbox without requests during the tests below; its samples continue meanwhile. */
let idle: Sandbox | undefined;

timed("the first sample exists within two seconds and has the sandbox's size", async () => {
  const sandbox = await Sandbox.create(server().options);
  const [first] = await sampled(sandbox, (metrics) => metrics.length > 0, 2_500);
  expect(first).toMatchObject({ cpuCount: 2, memTotal: 1024 * MIB });
  expect(first?.diskTotal).toBeGreaterThan(9 * 1024 * MIB);
  expect(first?.diskTotal).toBeLessThan(11 * 1024 * MIB);
  expect(first?.memUsed).toBeGreaterThan(MIB);
  expect(first?.memUsed).toBeLessThan(512 * MIB);
  idle = sandbox;
});

describe("a sandbox that works", () => {
  // Alone: it has to get a share of the processor.
  const play = async () => {
    const sandbox = await Sandbox.create(server().options);
    await sandbox.commands.run("head -c 200000000 /dev/urandom > /home/user/big && sync");
    const { pid } = await sandbox.commands.run(
      `exec python3 -c "
import time
held = bytearray(150 * 1024 * 1024)
end = time.time() + 100
while time.time() < end: pass
"`,
      { background: true },
    );
    const [quiet] = await sandbox.getMetrics();
    const begun = await usedBy(sandbox, pid);
    /** The samples of times in which it only computed. */
    const since = (all: Metrics) => all.filter((_, nth) => (all[nth - 1]?.timestamp.getTime() ?? 0) > begun.at);
    const isBusy = (all: Metrics) => since(all).length >= (LONG ? 2 : 1) && (all.at(-1)?.memUsed ?? 0) > 150 * MIB;
    const all = since(await sampled(sandbox, isBusy, WITHIN_MS));
    const ended = await usedBy(sandbox, pid);
    const last = all.at(-1);
    const own = await inside(sandbox);
    // A machine that is busy otherwise lets it have a little, and that is shown.
    const usedPct = (50 * (ended.ms - begun.ms)) / (ended.at - begun.at);
    const shownPct = all.reduce((sum, { cpuUsedPct }) => sum + cpuUsedPct, 0) / all.length;
    expect(usedPct).toBeGreaterThan(1);
    expect(shownPct).toBeGreaterThan(usedPct / 2);
    expect(last?.cpuCount).toBe(own.cpu_count ?? 0);
    expect(last?.memTotal).toBe(own.mem_total ?? 0);
    expect(last?.diskTotal).toBe(own.disk_total ?? 0);
    expect(own.disk_total).toBe(Number((await sandbox.commands.run("df --output=size -B1 / | tail -1")).stdout));
    expect(Math.abs((last?.memUsed ?? 0) - (own.mem_used ?? 0))).toBeLessThan(48 * MIB);
    expect(Math.abs((last?.diskUsed ?? 0) - (own.disk_used ?? 0))).toBeLessThan(16 * MIB);
    // One busy processor of two; on a machine that is busy otherwise it gets less.
    expect(last?.cpuUsedPct).toBeLessThanOrEqual(60);
    if (quiet !== undefined) expect((last?.diskUsed ?? 0) - quiet.diskUsed).toBeGreaterThan(-MIB);
    await sandbox.kill();
  };
  timed("has the processor, memory and disk use that it sees itself", play);
});

timed("samples are taken every five seconds, without a request to the sandbox", async () => {
  const sandbox = idle ?? (await Sandbox.create(server().options));
  idle = undefined;
  const metrics = await sampled(sandbox, (all) => all.length >= SAMPLES, 30_000);
  const times = metrics.map(({ timestamp }) => timestamp.getTime());
  const gaps = times.slice(2).map((time, nth) => time - (times[nth + 1] ?? 0));
  for (const gap of gaps) expect(Math.abs(gap - 5_000)).toBeLessThan(2_000);
  const newest = await server().call("GET", `/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId},inever`);
  expect(Object.keys(newest.body.sandboxes)).toEqual([sandbox.sandboxId]);

  const printed = await cli.sandbox(["metrics", sandbox.sandboxId]);
  expect(printed).toMatchObject({ exitCode: 0 });
  expect(printed.stdout).toMatch(/CPU.*2 Cores.*Memory.*1024.*MiB.*Disk/);

  await sandbox.kill();
  expect((await Sandbox.getMetrics(sandbox.sandboxId, server().options)).length).toBeGreaterThanOrEqual(SAMPLES);
});
