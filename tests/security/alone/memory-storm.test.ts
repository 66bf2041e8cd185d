/**
 * Sandboxes whose memory is merged write all of it at once, and there is not enough for all: the kernel ends processes
 * inside sandboxes only, the server answers, and no acknowledged write is lost. Then memory stays short, and the server
 * makes room. The limit is one of the sandboxes' common cgroup, so that no other program of the machine is affected.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { readPoolReport } from "../../../src/sandbox/pool/pool-report.ts";
import { recordsIn } from "../../../src/sandbox/sandbox-record.ts";
import { CGROUP_ROOT } from "../../../src/system/cgroup/cgroups.ts";
import { freezerOf, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { memoryLeft } from "../../../src/system/cgroup/memory-left.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { mergingFault } from "../../../src/system/page-merging.ts";
import { newDataFolder, removeServer, startServer, type TestServer } from "../../support/server.ts";
import { refusalOf, until } from "../../support/until.ts";

const MIB = 1024 ** 2;
const SANDBOXES = LONG ? 50 : 4;
const FILLED_MIB = LONG ? 60 : 40;
/** Memory for all sandboxes, with their programs before they are merged. */
const SPACE_MIB = LONG ? 8_192 : 1_024;
/** Memory that is left when the storm begins; it needs almost SANDBOXES * FILLED_MIB. */
const STORM_MIB = LONG ? 600 : 40;
/** Then memory is enough again, and the rest of the programs go on. */
const STORM_MAX_MS = 60_000;
/** ksmd works for all of the machine. */
const MERGED_WITHIN_MS = 300_000;
const PAGES = (FILLED_MIB * MIB) / 4096;
const FOREVER = { timeoutMs: 3_600_000 };
const SHARING = { SANDLOT_SHARED_MEMORY: "default", SANDLOT_SHARED_MEMORY_CPU: "100" };

/** Fills its memory with pages that are equal in all sandboxes. At a sign it makes each of them its own. */
const PROGRAM = `
import os, time
size = ${PAGES} * 4096
filled = bytearray(b"".join(n.to_bytes(8, "little") * 512 for n in range(${PAGES})))
open("/tmp/filled", "w").close()
while not os.path.exists("/tmp/go"): time.sleep(0.05)
for page in range(0, size, 4096): filled[page:page + 16] = os.urandom(16)
open("/tmp/written", "w").close()
time.sleep(3600)
`;

const unsupported = await mergingFault();
let server: TestServer;
let data: DataFolder;
let sandboxes: Sandbox[];
let idle: Sandbox;
let unfilledBytes: number;

/** Limits the memory of all sandboxes of the server together. */
function limitMemory(bytes: number): void {
  const v1 = join(CGROUP_ROOT, "memory", data.cgroup, "memory.limit_in_bytes");
  writeFileSync(existsSync(v1) ? v1 : join(CGROUP_ROOT, data.cgroup, "memory.max"), String(Math.floor(bytes)));
}

/** Memory that the sandboxes need, without page cache. */
function usedBytes(): number {
  const { totalBytes, availableBytes } = memoryLeft(data.cgroup);
  return totalBytes - availableBytes;
}

async function insideProcesses(): Promise<number[]> {
  const found = recordsIn(data.sandboxesFolder).map(({ cgroup }) => processesBelow(freezerOf(cgroup)));
  return (await Promise.all(found)).flat();
}

/** The server, the edge and the relay. */
function serverProcesses(): number[] {
  const programs = ["edge/edge.js", "relay/relay.js"].map((program) => join(data.runFolder, program));
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return [server.pid, ...pids.map(Number).filter((pid) => programs.some((each) => commandOf(pid).includes(each)))];
}

function commandOf(pid: number): string {
  return textOf(`/proc/${pid}/cmdline`) ?? "";
}

function scoresOf(pids: readonly number[]): number[] {
  return pids.flatMap((pid) => textOf(`/proc/${pid}/oom_score_adj`) ?? []).map(Number);
}

/** Undefined: the process has ended. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

const isThere = (sandbox: Sandbox) => server.call("GET", `/sandboxes/${sandbox.sandboxId}`);

/** The program in each sandbox, as the machine sees it. */
async function programs(): Promise<number[]> {
  return (await insideProcesses()).filter((pid) => commandOf(pid) === "python3\0/tmp/storm.py\0");
}

/** Writes files until the storm is over. Returns the numbers of the acknowledged ones. */
async function writeAcknowledged(sandbox: Sandbox, isOver: () => boolean): Promise<number[]> {
  const acknowledged: number[] = [];
  for (let next = 1; !isOver(); next++) {
    await sandbox.files.write(`/home/user/${next}.txt`, String(next), { requestTimeoutMs: 10_000 }).then(
      () => void acknowledged.push(next),
      () => Bun.sleep(50),
    );
  }
  return acknowledged;
}

/** Those of these files that do not have the acknowledged content. */
async function missingOf(sandbox: Sandbox, files: readonly number[]): Promise<string> {
  const test = `for n in ${files.join(" ")}; do [ "$(cat /home/user/$n.txt)" = $n ] || echo $n; done`;
  let missing = "not read";
  await until("the sandbox answers", async () => {
    const read = await sandbox.commands.run(test).catch(() => undefined);
    if (read !== undefined) missing = read.stdout;
    return read !== undefined;
  });
  return missing;
}

beforeAll(async () => {
  const folder = newDataFolder("memory-storm");
  const settings = { SANDLOT_MEMORY_RESERVE: "50", SANDLOT_READY: "1", SANDLOT_READY_MAX: "1" };
  server = await startServer(folder, unsupported === undefined ? { ...settings, ...SHARING } : settings);
  data = new DataFolder(folder);
  idle = await Sandbox.create({ ...server.options, ...FOREVER, lifecycle: { onTimeout: "pause" } });
  await idle.files.write("/home/user/kept.txt", "kept");
  limitMemory(SPACE_MIB * MIB);
  const created = Array.from({ length: SANDBOXES }, () => Sandbox.create({ ...server.options, ...FOREVER }));
  sandboxes = await Promise.all(created);
  unfilledBytes = usedBytes();
  if (unsupported !== undefined) return;
  for (const sandbox of sandboxes) {
    await sandbox.files.write("/tmp/storm.py", PROGRAM);
    await sandbox.commands.run("exec python3 /tmp/storm.py", { background: true, timeoutMs: 0 });
  }
}, 300_000);
afterAll(async () => {
  await server.stop();
  await removeServer(server.dataFolder);
});

test("the kernel prefers every process of a sandbox to those of the server", async () => {
  const outside = scoresOf(serverProcesses());
  expect(outside.length).toBeGreaterThan(2);
  expect(Math.min(...scoresOf(await insideProcesses()))).toBeGreaterThanOrEqual(100);
  // Where the server may lower its own, and the others inherit it.
  expect(new Set(outside)).toEqual(new Set([Math.min(...outside) < 0 ? -900 : 0]));
});

test.if(unsupported === undefined)(
  "the programs of all sandboxes are merged",
  async () => {
    // Two of them in full, and a third of each other one.
    const most = unfilledBytes + FILLED_MIB * MIB * (2 + (SANDBOXES - 2) / 3);
    const filled = () => sandboxes.map((sandbox) => sandbox.files.exists("/tmp/filled"));
    await until("all programs are filled", async () => (await Promise.all(filled())).every(Boolean));
    await until("their memory is merged", async () => usedBytes() < most, MERGED_WITHIN_MS);
  },
  600_000,
);

test("while memory is short, no sandbox starts, and idle ones with autoPause are paused", async () => {
  // Again and again, because the sandboxes need less as they merge, and as the pool is given up.
  const makeShort = () => limitMemory(usedBytes() * 1.3);
  const create = () => Sandbox.create({ ...server.options, ...FOREVER });
  let refusal = "";
  await until("a create is refused", async () => {
    makeShort();
    const made = await create().catch((error) => String(error));
    refusal = typeof made === "string" ? made : "";
    if (typeof made !== "string") await made.kill();
    return refusal !== "";
  });
  expect(refusal).toContain("the machine is short of memory");
  let isGivenUp = false;
  await until("the ready pool is given up, and the idle sandbox is paused", async () => {
    makeShort();
    isGivenUp ||= readPoolReport(data)?.isShortOfMemory === true;
    return isGivenUp && (await isThere(idle)).body.state === "paused";
  });
  makeShort();
  for (const sandbox of sandboxes) expect((await isThere(sandbox)).body.state).toBe("running");
  expect((await refusalOf(Sandbox.connect(idle.sandboxId, server.options))).message).toContain("short of memory");

  limitMemory(SPACE_MIB * MIB);
  await until("a create succeeds", () =>
    create().then(
      (made) => made.kill(),
      () => false,
    ),
  );
  await idle.connect(FOREVER);
  expect(await idle.files.read("/home/user/kept.txt")).toBe("kept");
  expect(Math.min(...scoresOf(await insideProcesses()))).toBeGreaterThanOrEqual(100);
  await idle.kill();
}, 120_000);

test.if(unsupported === undefined)(
  "a storm of writes ends nothing outside sandboxes, and loses no acknowledged write",
  async () => {
    const before = serverProcesses();
    const running = await programs();
    expect(running).toHaveLength(SANDBOXES);
    limitMemory(usedBytes() + STORM_MIB * MIB);

    let isOver = false;
    const writers = sandboxes.map((sandbox) => writeAcknowledged(sandbox, () => isOver));
    const statuses: number[] = [];
    const reader = (async () => {
      while (!isOver) statuses.push((await server.call("GET", "/v2/sandboxes")).status);
    })();
    for (const pid of running) writeFileSync(`/proc/${pid}/root/tmp/go`, "");
    const isUnderWay = (pid: number) => existsSync(`/proc/${pid}`) && !existsSync(`/proc/${pid}/root/tmp/written`);
    // The kernel reclaims for seconds before it ends the next program, so many of them take long.
    const endBy = performance.now() + STORM_MAX_MS;
    const isSettled = () => !running.some(isUnderWay);
    await until("the storm is over", () => isSettled() || performance.now() > endBy);
    const survivors = (await programs()).length;
    const hadRoomForAll = isSettled() && survivors === SANDBOXES;
    isOver = true;
    const acknowledged = await Promise.all(writers);
    await reader;
    limitMemory(SPACE_MIB * MIB);

    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(serverProcesses()).toEqual(before);
    if (/^SwapTotal: +0 kB$/m.test(readFileSync("/proc/meminfo", "utf8"))) expect(hadRoomForAll).toBe(false);
    let ended = 0;
    for (const [nth, sandbox] of sandboxes.entries()) {
      if ((await isThere(sandbox)).status === 404) ended++;
      else expect(await missingOf(sandbox, acknowledged[nth] ?? [])).toBe("");
    }
    const writes = acknowledged.flat().length;
    const figures = `${SANDBOXES} sandboxes, ${survivors} programs survived, ${ended} sandboxes ended`;
    console.log(`  memory storm: ${figures}, ${writes} acknowledged writes, ${statuses.length} GETs`);
  },
  300_000,
);
