/** The ready pool, as clients and the operator notice it. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { BASE_TEMPLATE } from "../../../src/contract/management/base-template.ts";
import { type PoolReport, readPoolReport } from "../../../src/sandbox/pool/pool-report.ts";
import { CGROUP_ROOT } from "../../../src/system/cgroup/cgroups.ts";
import { freeze, isFrozen } from "../../../src/system/cgroup/freezer.ts";
import { attempt } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile, serverOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const BURST = 10;
/** Four fifths of all, plus the guaranteed minimum: no team gets more, however much it requests. */
const MOST = 5;
const server = serverOfFile("pool", { SANDLOT_READY: "1", SANDLOT_READY_MAX: "5" });
const folderNamed = foldersOfFile();
const data = () => new DataFolder(server().dataFolder);
const FILLED_MS = 120_000;

const pool = (): PoolReport => readPoolReport(data()) ?? { templates: [], hits: 0, joined: 0, misses: 0 };

const total = (of: "target" | "ready", { templates } = pool()) =>
  templates.reduce((sum, template) => sum + template[of], 0);

/** As many as should be are ready, which are at least so many, of all templates. */
async function untilReady(least: number): Promise<void> {
  const isSo = () => {
    const now = pool();
    return total("ready", now) === total("target", now) && total("target", now) >= least;
  };
  await until(() => `${least} are ready: ${JSON.stringify(pool())}`, isSo, FILLED_MS);
}

async function burst(count: number, template: string = BASE_TEMPLATE.alias): Promise<Sandbox[]> {
  const options = { ...server().options, timeoutMs: 300_000 };
  return await Promise.all(Array.from({ length: count }, () => Sandbox.create(template, options)));
}

async function killAll(sandboxes: readonly Sandbox[]): Promise<void> {
  await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
}

/** Sandboxes that no client has taken. */
function waiting(taken: readonly Sandbox[] = [], { sandboxesFolder } = data()): string[] {
  const ids = new Set(taken.map(({ sandboxId }) => sandboxId));
  return readdirSync(sandboxesFolder).filter((id) => !ids.has(id));
}

/** Whether it is frozen. A sandbox that is being made, or gone, is not. */
function standsStill(id: string): boolean {
  try {
    return isFrozen(`${data().cgroup}/${id}`);
  } catch {
    return false;
  }
}

async function command(...args: string[]): Promise<string> {
  const run = [process.execPath, MAIN, ...args];
  const { stdout, stderr } = await attempt(run, { env: serverEnv(server().dataFolder) });
  return stdout + stderr;
}

test("processes of a snapshot are frozen in the ready pool and run after a create", async () => {
  await untilReady(1);
  const original = await Sandbox.create(server().options);
  await original.commands.run("while :; do echo x >> /tmp/steps; sleep 0.02; done", { background: true });
  const { snapshotId } = await original.createSnapshot();
  const taken = [original, ...(await burst(2, snapshotId))];
  await untilReady(2);
  let waitingReady: string[] = [];
  // The one of base has no process that could run, and may have been replaced by now.
  await until("all but one stand still", () => {
    const all = waiting(taken);
    waitingReady = all.filter((id) => standsStill(id));
    return waitingReady.length > 0 && waitingReady.length === all.length - 1;
  });

  const [sandbox] = await burst(1, snapshotId);
  if (sandbox === undefined) throw new Error("none was made");
  expect(waitingReady).toContain(sandbox.sandboxId);
  const steps = async () => (await sandbox.files.read("/tmp/steps")).length;
  const first = await steps();
  await until("it goes on", async () => (await steps()) > first);
  await killAll([...taken, sandbox]);
  // The snapshot can no longer be asked for, so its ready sandboxes go.
  await Sandbox.deleteSnapshot(snapshotId, server().options);
  await until("its own are gone", () => waiting().length === 1 && total("target") === 1, FILLED_MS);
});

test("after a burst of creates the pool serves the next burst, and the operator sees it", async () => {
  await killAll(await burst(BURST));
  await untilReady(MOST);
  expect(total("target")).toBe(MOST);
  const [listed, metrics] = await Promise.all([command("templates"), command("templates", "metrics")]);
  expect(listed).toMatch(new RegExp(`^${BASE_TEMPLATE.id} .* pool=\\d+/${MOST}  hits=\\d+/\\d+`, "m"));
  expect(metrics).toContain(`sandlot_ready_pool_target{template="${BASE_TEMPLATE.id}"} ${MOST}\n`);
  const before = pool();
  const sandboxes = await burst(MOST);
  const output = await Promise.all(sandboxes.map(({ commands, sandboxId }) => commands.run(`echo ${sandboxId}`)));
  expect(output.map(({ stdout }) => stdout.trim())).toEqual(sandboxes.map(({ sandboxId }) => sandboxId));
  const served = ({ hits, joined }: PoolReport) => hits + joined;
  await until("the report counts them", () => served(pool()) === served(before) + MOST);
  expect(pool().misses).toBe(before.misses);
  await killAll(sandboxes);
});

test("when memory is short, the pool shrinks to its minimum and creates go on", async () => {
  await using _limit = memoryLimit(64 * 1024 ** 2);
  await until("the others are gone", () => waiting().length === 1 && total("target") === 1, FILLED_MS);
  const [sandbox] = await burst(1);
  expect((await sandbox?.commands.run("echo works"))?.stdout).toBe("works\n");
  await sandbox?.kill();
});

test("the next server removes frozen ready sandboxes of a killed server", async () => {
  const folder = folderNamed("pool-killed");
  const first = await startServer(folder, { SANDLOT_READY: "2" });
  const own = new DataFolder(folder);
  const sandbox = await Sandbox.create(first.options);
  const waitingReady = () => waiting([sandbox], own);
  await until("two are ready", () => waitingReady().length === 2 && readPoolReport(own)?.templates[0]?.ready === 2);
  for (const id of waitingReady()) await freeze(`${own.cgroup}/${id}`);
  await first.crash();
  const second = await startServer(folder, { SANDLOT_READY: "0" });
  expect(waitingReady()).toEqual([]);
  const again = await Sandbox.connect(sandbox.sandboxId, second.options);
  expect((await again.commands.run("echo works")).stdout).toBe("works\n");
  await second.stop();
});

/** The sandboxes of this server may take so much more than they do. */
function memoryLimit(moreBytes: number): AsyncDisposable {
  const v1 = join(CGROUP_ROOT, "memory", data().cgroup);
  const isV1 = existsSync(v1);
  const folder = isV1 ? v1 : join(CGROUP_ROOT, data().cgroup);
  const limit = join(folder, isV1 ? "memory.limit_in_bytes" : "memory.max");
  const used = Number(readFileSync(join(folder, isV1 ? "memory.usage_in_bytes" : "memory.current"), "utf8"));
  writeFileSync(limit, String(used + moreBytes));
  return { [Symbol.asyncDispose]: async () => writeFileSync(limit, isV1 ? "-1" : "max") };
}
