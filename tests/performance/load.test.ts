/**
 * Many sandboxes under light work of all kinds, without a leak, and the cost to others of one sandbox that uses all it
 * may. `SANDLOT_TEST_LONG=1` runs 300 sandboxes for ten minutes; the default is a sample of seconds.
 */
import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { timed } from "../../src/base/testing/timed.ts";
import { Network } from "../../src/sandbox/network/network.ts";
import { recordsIn } from "../../src/sandbox/sandbox-record.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { ID_TABLES_KEPT } from "../../src/system/mount/id-mapping.ts";
import { NOTHING, settledCensus } from "../support/census.ts";
import { serverOfFile } from "../support/server-of-file.ts";
import { until } from "../support/until.ts";

const COUNT = LONG ? 300 : 12;
const LOAD_MS = LONG ? 600_000 : 3_000;
const HOG_ROUNDS = 10;
const HOG_MS = 5_000;
const WORKERS = LONG ? 8 : 4;
const AT_ONCE = 6;
const LIFE = { timeoutMs: 3_600_000 };
const CYCLE_EVERY = 20;
/** Open files that a server may have gained since its first sandboxes. */
const FILES_MORE_MAX = 16;
const MEMORY_MORE_MAX_BYTES = 128 * 1024 * 1024;
const DEAD_CGROUPS_MAX = 20;
/** The kernel tries for some seconds to tell others that a connection is over. */
const GONE_WITHIN_MS = 60_000;
const SLOWER_BESIDE_HOG_MAX = 1.5;

const server = serverOfFile("load", { SANDLOT_READY: "0" });

async function makeSandboxes(count: number): Promise<Sandbox[]> {
  const made: Sandbox[] = [];
  let begun = 0;
  const makeSome = async () => {
    while (begun++ < count) made.push(await Sandbox.create({ ...server().options, ...LIFE }));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, makeSome));
  return made;
}

/** A little of everything. Now and then a sandbox is paused and resumed, or another takes its place. */
async function lightWork(sandboxes: Sandbox[], at: number, step: number, cycles = true): Promise<void> {
  const sandbox = sandboxes[at];
  if (sandbox === undefined) return;
  if (cycles && step % CYCLE_EVERY === 0) {
    await sandbox.pause();
    await sandbox.connect(LIFE);
  } else if (cycles && step % CYCLE_EVERY === CYCLE_EVERY / 2) {
    await sandbox.kill();
    sandboxes[at] = await Sandbox.create({ ...server().options, ...LIFE });
  } else if (step % 3 === 0) {
    await sandbox.files.write("/home/user/note", `step ${step}`);
    expect(await sandbox.files.read("/home/user/note")).toBe(`step ${step}`);
  } else if (step % 3 === 1) {
    expect((await sandbox.commands.run("ls / | wc -l; curl -s -m 2 http://93.184.215.14/ | wc -c")).exitCode).toBe(0);
  } else {
    expect((await sandbox.getInfo()).state).toBe("running");
  }
}

/** Works until it is aborted. Each worker has its own sandboxes. */
function work(sandboxes: Sandbox[], signal: AbortSignal, cycles = true): Promise<unknown> {
  const worker = async (first: number) => {
    for (let step = first; !signal.aborted; step++) {
      const own = Math.floor(sandboxes.length / WORKERS);
      await lightWork(sandboxes, first * own + (step % own), step, cycles);
    }
  };
  return Promise.all(Array.from({ length: WORKERS }, (_, first) => worker(first)));
}

/** Descriptors of a server, without those of id tables, of which it keeps up to ID_TABLES_KEPT for later sandboxes. */
function filesOf(pid: number): number {
  const descriptors = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return "closed since";
    }
  });
  const idTables = descriptors.filter((target) => target.startsWith("user:"));
  expect(idTables.length).toBeLessThanOrEqual(ID_TABLES_KEPT);
  return descriptors.length - idTables.length;
}

function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
}

/** Addresses of the existing sandboxes. */
function addresses(): string[] {
  const data = new DataFolder(server().dataFolder);
  const network = new Network(data);
  return recordsIn(data.sandboxesFolder).map(({ slot }) => network.address(slot));
}

/** Flows from these addresses in the kernel's table. */
function flows(of: readonly string[]): string[] {
  const lines = readFileSync("/proc/net/nf_conntrack", "utf8").split("\n");
  return lines.filter((line) => of.includes(/ src=(\S+) /.exec(line)?.[1] ?? ""));
}

/** Cgroups of the whole machine that are removed but still held by the kernel. */
function deadCgroups(): number {
  const known = Number(/^memory\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/cgroups", "utf8"))?.[1] ?? 0);
  const shown = execFileSync("find", ["/sys/fs/cgroup/memory", "-type", "d"], { maxBuffer: 1 << 24 });
  return known - shown.toString().trim().split("\n").length;
}

/** Kernel memory for connections of ended sandboxes, where cgroups count it separately. */
function socketMemory(): number {
  const { cgroup } = new DataFolder(server().dataFolder);
  const file = `/sys/fs/cgroup/memory/${cgroup}/memory.kmem.tcp.usage_in_bytes`;
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
}

test(
  "sandboxes under light work leave nothing behind",
  async () => {
    const { pid, dataFolder } = server();
    const sandboxes = await makeSandboxes(COUNT);
    // After this, everything that is made only once exists.
    for (const step of [0, 1, 2, 3]) await lightWork(sandboxes, step, step);
    const before = { files: filesOf(pid), memory: memoryOf(pid), dead: LONG ? deadCgroups() : 0 };
    const over = new AbortController();
    const working = work(sandboxes, over.signal);
    await Promise.race([Bun.sleep(LOAD_MS), working]);
    over.abort();
    await working;
    expect(memoryOf(pid) - before.memory).toBeLessThan(MEMORY_MORE_MAX_BYTES);
    const had = addresses();
    expect(had).toHaveLength(COUNT);
    expect(flows(had)).not.toBeEmpty();
    await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
    await until("the files of the server are closed", () => filesOf(pid) <= before.files + FILES_MORE_MAX);
    await until("the kernel knows of no flow of theirs", () => flows(had).length === 0);
    await until("no connection of theirs holds memory", () => socketMemory() === 0, GONE_WITHIN_MS);
    if (LONG) {
      const more = () => deadCgroups() - before.dead;
      await until(
        () => `cgroups have gone; ${more()} more are left`,
        () => more() < DEAD_CGROUPS_MAX,
        GONE_WITHIN_MS,
      );
    }
  },
  LONG ? 1_800_000 : 300_000,
);

/** Uses all that one sandbox may have, until it is ended: processors, memory, disk, network, processes. */
const HOG = [
  "for _ in 1 2 3 4; do (while :; do :; done) & done",
  "(while :; do python3 -c 'x = bytearray(700 << 20)'; done) &",
  "(while :; do dd if=/dev/zero of=/home/user/fill bs=1M count=256 conv=fsync; done) &",
  "(while :; do curl -s -m 1 http://93.184.215.14/ > /dev/null; done) &",
  "(while :; do for _ in $(seq 200); do sleep 0.2 & done; wait; done) &",
  "wait",
].join("\n");
/** With all that it has started. */
const HOG_FOR_A_WHILE = `timeout --signal=KILL ${HOG_MS / 1000} bash -c '${HOG.replaceAll("'", `'"'"'`)}'`;

async function latencies(quiet: Sandbox, forMs: number): Promise<{ read: number[]; command: number[] }> {
  const found = { read: [] as number[], command: [] as number[] };
  const end = performance.now() + forMs;
  while (performance.now() < end) {
    const began = performance.now();
    await quiet.getInfo();
    const between = performance.now();
    await quiet.commands.run("true");
    found.read.push(between - began);
    found.command.push(performance.now() - between);
  }
  return found;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

// Only in long runs: in a sample of seconds, other work of a busy machine outweighs the measured value.
if (LONG) {
  timed(
    "a sandbox at its limits slows calls for another by at most half",
    async () => {
      const sandboxes = await makeSandboxes(WORKERS * 2);
      const [quiet, hog] = await makeSandboxes(2);
      if (quiet === undefined || hog === undefined) throw new Error("no sandbox was made");
      const over = new AbortController();
      const working = work(sandboxes, over.signal, false);
      const alone = { read: [] as number[], command: [] as number[] };
      const beside = { read: [] as number[], command: [] as number[] };
      try {
        await latencies(quiet, HOG_MS);
        for (let round = 0; round < HOG_ROUNDS; round++) {
          for (const into of [alone, beside]) {
            // It is killed, and says so.
            const isOver = into === beside ? hog.commands.run(HOG_FOR_A_WHILE, { timeoutMs: 0 }).catch(() => 0) : 0;
            const found = await latencies(quiet, HOG_MS);
            into.read.push(...found.read);
            into.command.push(...found.command);
            await isOver;
          }
        }
      } finally {
        over.abort();
        await working;
        await Promise.all([...sandboxes, quiet, hog].map((sandbox) => sandbox.kill()));
      }
      const slower = {
        read: median(beside.read) / median(alone.read),
        command: median(beside.command) / median(alone.command),
      };
      console.log(`beside a hog: get ${slower.read.toFixed(2)} x, command ${slower.command.toFixed(2)} x`);
      expect(slower.read).toBeLessThan(SLOWER_BESIDE_HOG_MAX);
      expect(slower.command).toBeLessThan(SLOWER_BESIDE_HOG_MAX);
    },
    1_200_000,
  );
}
