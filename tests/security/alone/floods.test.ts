/**
 * Clients and services that flood the edge, which serves all teams: another team's requests stay quick, and the memory
 * of the edge and the server stays bounded. The test stops and continues the flood in turns, so that quiet and flooded
 * requests are measured under the same conditions. The flood runs with the lowest priority, because attackers use other
 * processors.
 */
import { beforeAll, expect } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { cpus, setPriority } from "node:os";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { systemClock } from "../../../src/base/clock.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { createApiKey } from "../../../src/control/access/keys.ts";
import { createIds } from "../../../src/control/ids.ts";
import { openStore } from "../../../src/store/store.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { startService } from "../../support/listening.ts";
import type { FLOODS } from "../../support/programs/flood.ts";
import { serverOfFile } from "../../support/server-of-file.ts";

const PROGRAM = join(import.meta.dir, "../../support/programs/flood.ts");
/** Many short rounds: other work on the machine lasts longer than one, and so delays both kinds alike. */
const ROUNDS = LONG ? 10 : 4;
const REQUESTS = 16;
/** Time until a continued flood is under way, or the rest of a stopped one is done. */
const SETTLE_MS = 125;
const SLOWER_MAX = 3;
/** A request passes three processes, and each may wait for a turn of a few milliseconds on one of two processors. */
const TURNS_MS = 5;
const P95_MAX_MS = 50;
/** Minimum idle share of all processors without a flood: below it, other work delays requests too. */
const IDLE_MIN_SHARE = 0.25;
const CLIENT_NICENESS = -10;
const GROWTH_MAX_BYTES = 256 * 1024 * 1024;
const PORT = 8000;

interface CpuTimes {
  idle: number;
  all: number;
}

const server = serverOfFile("edge-floods", { SANDLOT_READY: "0" });
let host: string;
/** Of another team than the requests that are measured. */
let attackersKey: string;
beforeAll(async () => {
  attackersKey = await keyOfAnotherTeam();
  const sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await startService(sandbox, "flood-service", PORT, "0.0.0.0", 19);
  host = `${PORT}-${sandbox.sandboxId}.example.com`;
});

async function keyOfAnotherTeam(): Promise<string> {
  const store = await openStore(`sqlite://${new DataFolder(server().dataFolder).storeFile}`, Date.now());
  try {
    const services = { store, ids: createIds(), clock: systemClock };
    const team = { id: services.ids.uuid(), name: "flood", slug: "flood", limits: {}, createdAt: Date.now() };
    await store.people.addTeam(team);
    return (await createApiKey(services, { teamId: team.id, name: "flood", createdBy: null })).secret;
  } finally {
    await store.close();
  }
}

/** Duration of another client's request, over a connection of its own. */
async function ask(): Promise<number> {
  const beganMs = performance.now();
  const headers = { "X-API-Key": server().apiKey, connection: "close" };
  const response = await fetch(`${server().url}/sandboxes`, { headers });
  expect(response.status).toBe(200);
  await response.text();
  return performance.now() - beganMs;
}

/** Sets the priority of all threads of this process: Bun's fetch has its own thread. */
function setOwnPriority(niceness: number): void {
  for (const thread of readdirSync("/proc/self/task")) {
    try {
      setPriority(Number(thread), niceness);
    } catch {
      // It has ended since.
    }
  }
}

/** Clients have processors of their own: this one does not wait for those of the server and its neighbours. */
async function askOften(): Promise<number[]> {
  const tookMs: number[] = [];
  setOwnPriority(CLIENT_NICENESS);
  try {
    for (let at = 0; at < REQUESTS; at++) tookMs.push(await ask());
  } finally {
    setOwnPriority(0);
  }
  return tookMs;
}

function timesSince(before: CpuTimes): CpuTimes {
  const now = cpuTimes();
  return { idle: now.idle - before.idle, all: now.all - before.all };
}

function cpuTimes(): CpuTimes {
  const times = cpus().map(({ times }) => times);
  const sum = (one: (of: (typeof times)[number]) => number) => times.reduce((total, of) => total + one(of), 0);
  return {
    idle: sum(({ idle }) => idle),
    all: sum(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq),
  };
}

function p95(tookMs: number[]): number {
  return tookMs.toSorted((a, b) => a - b)[Math.floor(tookMs.length * 0.95)] ?? 0;
}

/** The server, and its processes of the edge. */
function memory(): Map<number, number> {
  const { pid } = server();
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  const isEdge = (child: number) => readFileSync(`/proc/${child}/cmdline`, "utf8").includes("/edge/");
  const rss = (one: number) =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${one}/status`, "utf8"))?.[1]) * 1024;
  return new Map([pid, ...children.filter(isEdge)].map((one) => [one, rss(one)]));
}

/** A flood that can be stopped and continued. */
class Flood implements AsyncDisposable {
  readonly #child: Bun.Subprocess<"ignore", "pipe", "inherit">;

  constructor(kind: keyof typeof FLOODS, to: string, connections: number) {
    const { port } = new URL(server().url);
    const command = ["nice", "-n", "19", process.execPath, PROGRAM, port, to, kind, String(connections)];
    // Only floods that need a key get one.
    if (kind.startsWith("bodies")) command.push(attackersKey);
    this.#child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  }

  async begun(): Promise<void> {
    for await (const _ of this.#child.stdout) return;
    throw new Error("the flood did not begin");
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}

type Flooding = [keyof typeof FLOODS, "the management API" | "a sandbox", number];
/** In long runs only: each is like one of the others. */
const RARELY: Flooding[] = [
  ["long chunks", "the management API", 12],
  ["bodies of escapes", "the management API", 4],
  ["tiny chunks at a pace", "a sandbox", 4],
];
const FLOODED: Flooding[] = [
  ["tiny chunks", "the management API", 4],
  ["bodies of brackets", "the management API", 4],
  ["bodies without an end", "the management API", 120],
  ["tiny chunks of a service", "a sandbox", 4],
  ["tiny frames", "a sandbox", 4],
  ["an endless message", "a sandbox", 220],
  ["slow readers", "a sandbox", 800],
  ...(LONG ? RARELY : []),
];

for (const [kind, to, connections] of FLOODED) {
  timed(`${connections} connections with ${kind} to ${to} neither delay other clients nor fill memory`, async () => {
    await askOften();
    const before = memory();
    const [quiet, flooded]: [number[], number[]] = [[], []];
    await using flood = new Flood(kind, to === "a sandbox" ? host : "127.0.0.1", connections);
    await flood.begun();
    const growth: number[] = [];
    const idleTime: CpuTimes = { idle: 0, all: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      await Bun.sleep(SETTLE_MS);
      flooded.push(...(await askOften()));
      for (const [pid, bytes] of memory()) growth.push(bytes - (before.get(pid) ?? 0));
      flood.signal("SIGSTOP");
      await Bun.sleep(SETTLE_MS);
      const timesBefore = cpuTimes();
      quiet.push(...(await askOften()));
      const { idle, all } = timesSince(timesBefore);
      idleTime.idle += idle;
      idleTime.all += all;
      flood.signal("SIGCONT");
    }
    const idleShare = idleTime.idle / idleTime.all;
    const growthMiB = Math.max(...growth) / 2 ** 20;
    const seen = { quietMs: p95(quiet), floodedMs: p95(flooded), growthMiB, idleShare };
    if (LONG) console.log(kind, to, JSON.stringify(seen));
    expect(Math.max(...growth)).toBeLessThan(GROWTH_MAX_BYTES);
    expect(seen.floodedMs).toBeLessThan(SLOWER_MAX * Math.max(seen.quietMs, TURNS_MS));
    if (idleShare >= IDLE_MIN_SHARE) expect(seen.floodedMs).toBeLessThan(P95_MAX_MS);
  });
}
