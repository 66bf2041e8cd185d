/**
 * One life of many sandboxes on one machine: created, used, adopted after the server was killed, and ended in the same
 * second. `SANDLOT_TEST_LONG=1` runs a thousand against bounds; the default is a few.
 */
import { expect, test } from "bun:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { recordsIn } from "../../src/sandbox/sandbox-record.ts";
import { memoryInUse } from "../../src/system/cgroup/memory-in-use.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { NOTHING, settledCensus } from "../support/census.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { foldersOfFile } from "../support/server-of-file.ts";

const COUNT = LONG ? 1000 : 16;
const HALF = COUNT / 2;
const AT_ONCE = 8;
const SAMPLES = LONG ? 20 : 2;
const LIFE = { timeoutMs: 24 * 3_600_000 };
/** The server admits other clients' requests at once, whatever their number. */
const SETTINGS = { SANDLOT_READY: "0", SANDLOT_CHANGES_PER_SECOND: "10000", SANDLOT_READS_PER_SECOND: "10000" };
const TEST_MS = LONG ? 3_600_000 : 240_000;

/** Bounds for an otherwise idle machine. */
const SLOWER_CREATE_MAX = 1.1;
const START_MAX_MS = 5_000;
const IDLE_MAX_MIB = 6;
/** How much longer than at rest a reader may wait while all end. */
const SLOWER_GET_MAX = 20;
const GONE_WITHIN_MS = LONG ? 300_000 : 60_000;
const MIB = 1024 ** 2;

const folderOf = foldersOfFile();
const numbers = Array.from({ length: COUNT }, (_, at) => at);

async function call(server: TestServer, method: string, path: string, body?: unknown): Promise<void> {
  expect([200, 201, 204]).toContain((await server.call(method, path, body)).status);
}

async function eachAtOnce<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const line = [...items];
  const worker = async () => {
    for (let next = line.shift(); next !== undefined; next = line.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function timesOf(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let made = 0; made < count; made++) {
    const began = performance.now();
    await work();
    times.push(performance.now() - began);
  }
  return times;
}

function quantile(times: readonly number[], part: number): number {
  return times.toSorted((a, b) => a - b)[Math.floor((times.length - 1) * part)] ?? Number.NaN;
}

/** Median of a create with as many as there are, which goes again. */
async function createMs(server: TestServer): Promise<number> {
  const made: Sandbox[] = [];
  const times = await timesOf(SAMPLES, async () => made.push(await Sandbox.create({ ...server.options, ...LIFE })));
  for (const sandbox of made) await sandbox.kill();
  return quantile(times, 0.5);
}

async function readMs(server: TestServer, id: string): Promise<string> {
  const get = await timesOf(SAMPLES * 5, () => call(server, "GET", `/sandboxes/${id}`));
  const list = await timesOf(SAMPLES, () => call(server, "GET", "/v2/sandboxes?limit=100"));
  return `get ${quantile(get, 0.5).toFixed(1)} ms, list of a page ${quantile(list, 0.5).toFixed(1)} ms`;
}

async function listed(server: TestServer): Promise<Set<string>> {
  const ids = new Set<string>();
  const pages = Sandbox.list({ ...server.options, limit: 100 });
  while (pages.hasNext) for (const { sandboxId } of await pages.nextItems()) ids.add(sandboxId);
  return ids;
}

/** Sends reads until `isOver`, and returns the duration of each. */
async function readersWait(server: TestServer, isOver: () => Promise<boolean>): Promise<number[]> {
  const times: number[] = [];
  for (let over = false; !over; over = times.length % 20 === 0 && (await isOver())) {
    times.push(...(await timesOf(1, () => call(server, "GET", "/v2/sandboxes?limit=1"))));
    await sleep(5);
  }
  return times;
}

interface Promised {
  what: string;
  is: number;
  most: number;
}

/** Prints all bounds; enforces them only on an otherwise idle machine. */
function hold(promises: readonly Promised[]): void {
  for (const { what, is, most } of promises) console.log(`${what}: ${is.toFixed(2)}, at most ${most}`);
  if (LONG) expect(promises.filter(({ is, most }) => is > most)).toEqual([]);
}

test(
  `${COUNT} sandboxes are created, respond, are adopted after a crash, and end in the same second`,
  async () => {
    const folder = folderOf("thousand");
    const data = new DataFolder(folder);
    let server = await startServer(folder, SETTINGS);
    const sandboxes: Sandbox[] = [];
    const make = async () => sandboxes.push(await Sandbox.create({ ...server.options, ...LIFE }));
    await createMs(server);
    const alone = await createMs(server);
    await eachAtOnce(numbers.slice(0, HALF), make);
    const beside = await createMs(server);
    console.log(`with ${HALF}: ${await readMs(server, sandboxes[0]?.sandboxId ?? "")}`);
    await eachAtOnce(numbers.slice(HALF), make);
    const ids = sandboxes.map(({ sandboxId }) => sandboxId);
    console.log(`with ${COUNT}: ${await readMs(server, ids[0] ?? "")}`);
    const idle = recordsIn(data.sandboxesFolder).map(({ cgroup }) => memoryInUse(cgroup) / MIB);
    expect(idle).toHaveLength(COUNT);

    await eachAtOnce([...sandboxes.entries()], async ([at, sandbox]) => {
      const { stdout } = await sandbox.commands.run(`echo ${at} $E2B_SANDBOX_ID`);
      expect(stdout).toBe(`${at} ${sandbox.sandboxId}\n`);
    });
    expect(await listed(server)).toEqual(new Set(ids));

    await server.crash();
    const startedAt = performance.now();
    server = await startServer(folder, SETTINGS, TEST_MS);
    const startMs = performance.now() - startedAt;
    expect(await listed(server)).toEqual(new Set(ids));
    const last = await Sandbox.connect(ids.at(-1) ?? "", { ...server.options, ...LIFE });
    expect((await last.commands.run("echo still here")).stdout).toBe("still here\n");

    const quiet = await timesOf(SAMPLES * 5, () => call(server, "GET", "/v2/sandboxes?limit=1"));
    const endAt = Date.now() + (LONG ? 4_000 : 1_500) + 25 * COUNT;
    await eachAtOnce(ids, async (id) => {
      const timeout = Math.max(0, Math.ceil((endAt - Date.now()) / 1000));
      await call(server, "POST", `/sandboxes/${id}/timeout`, { timeout });
    });
    await sleep(Math.max(0, endAt - Date.now() - 500));
    const deadline = performance.now() + GONE_WITHIN_MS;
    const during = await readersWait(server, async () => {
      expect(performance.now()).toBeLessThan(deadline);
      return recordsIn(data.sandboxesFolder).length === 0;
    });
    expect(await listed(server)).toEqual(new Set());
    expect(await settledCensus(folder, NOTHING)).toEqual(NOTHING);
    await server.stop();

    const slowerGet = quantile(during, 0.99) / quantile(quiet, 0.99);
    hold([
      { what: `create with ${HALF} ÷ create with none`, is: beside / alone, most: SLOWER_CREATE_MAX },
      { what: "memory of an idle one, median, in MiB", is: quantile(idle, 0.5), most: IDLE_MAX_MIB },
      { what: `start with ${COUNT} to adopt, in ms`, is: startMs, most: START_MAX_MS },
      { what: "GET beside all ends, p99 ÷ at rest", is: slowerGet, most: SLOWER_GET_MAX },
    ]);
  },
  TEST_MS,
);
