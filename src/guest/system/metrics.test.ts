/** A sandbox's metrics, read from folders that look like those of the kernel. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { Meter } from "./metrics.ts";

const MIB = 1024 * 1024;
const FIELDS = [
  "ts",
  "cpu_count",
  "cpu_used_pct",
  "mem_total",
  "mem_used",
  "mem_cache",
  "mem_total_mib",
  "mem_used_mib",
  "disk_used",
  "disk_total",
];

const folder = folderOfTest("metrics");
let nowMs = 0;
beforeEach(() => {
  nowMs = 1000;
});

function put(path: string, content: string | number): void {
  mkdirSync(dirname(`${folder}/${path}`), { recursive: true });
  writeFileSync(`${folder}/${path}`, `${content}\n`);
}

const meter = (cpus?: number, memoryMb?: number) => new Meter(cpus, memoryMb, `${folder}/cgroup`, () => nowMs);

/** How each layout writes down CPU time in milliseconds and memory in MiB. */
const layouts = [
  {
    layout: "version 2",
    cpu: (ms: number) => put("cgroup/cpu.stat", `usage_usec ${ms * 1000}\nuser_usec 1\nsystem_usec 2`),
    memory: (current: number, file: number, shmem: number) => {
      put("cgroup/memory.current", current * MIB);
      put("cgroup/memory.stat", `anon 1\nfile ${file * MIB}\nfile_mapped 5\nshmem ${shmem * MIB}`);
    },
  },
  ...["cpuacct", "cpu,cpuacct"].map((controller) => ({
    layout: `version 1 with ${controller}`,
    cpu: (ms: number) => put(`cgroup/${controller}/cpuacct.usage`, ms * 1_000_000),
    memory: (current: number, file: number, shmem: number) => {
      put("cgroup/memory/memory.usage_in_bytes", current * MIB);
      const stat = `cache 1\nshmem 1\nrss 5\ntotal_cache ${file * MIB}\ntotal_shmem ${shmem * MIB}\ntotal_rss 5`;
      put("cgroup/memory/memory.stat", stat);
    },
  })),
];

describe.each(layouts)("a cgroup of $layout", ({ cpu, memory }) => {
  beforeEach(() => {
    cpu(5000);
    memory(300, 100, 0);
  });

  test("CPU is the use of all processors since the previous reading", async () => {
    const of = meter(2, 512);
    const after = async (wallMs: number, usedMs: number) => {
      nowMs += wallMs;
      cpu(usedMs);
      return (await of.read()).cpu_used_pct;
    };
    expect(await after(1000, 5500)).toBe(25);
    expect(await after(1000, 5500)).toBe(0);
    expect(await after(1000, 7500)).toBe(100);
    expect(await after(3000, 7501)).toBe(0.02);
    // The kernel's clock and ours are read one after the other.
    expect(await after(1000, 9600)).toBe(100);
    expect(await after(0, 9700)).toBe(0);
    // Restored from an earlier moment.
    expect(await after(1000, 100)).toBe(0);
    expect(await after(1000, 1100)).toBe(50);
  });

  test("memory is used or cache; files in tmpfs are used", async () => {
    expect(await meter(1, 512).read()).toMatchObject({
      mem_total: 512 * MIB,
      mem_used: 200 * MIB,
      mem_cache: 100 * MIB,
      mem_total_mib: 512,
      mem_used_mib: 200,
    });
    memory(300, 100, 60);
    expect(await meter(1, 512).read()).toMatchObject({ mem_used: 260 * MIB, mem_cache: 40 * MIB });
  });

  test("memory is never negative", async () => {
    memory(50, 80, 0);
    expect(await meter().read()).toMatchObject({ mem_used: 0, mem_cache: 50 * MIB });
    memory(50, 10, 20);
    expect(await meter().read()).toMatchObject({ mem_used: 50 * MIB, mem_cache: 0 });
  });

  test("the size is the host's setting", async () => {
    expect(await meter(3, 128).read()).toMatchObject({ cpu_count: 3, mem_total: 128 * MIB });
  });

  test("all ten fields exist", async () => {
    const metrics = await meter().read();
    expect(Object.keys(metrics)).toEqual(FIELDS);
    expect(Object.values(metrics).every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
  });
});

test("all ten fields exist, also without any cgroup", async () => {
  const metrics = await meter().read();
  expect(Object.keys(metrics)).toEqual(FIELDS);
  expect(Object.values(metrics).every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
});

test("the disk is that of the root folder", async () => {
  const { stdout } = Bun.spawnSync(["stat", "-f", "-c", "%b %S", "/"]);
  const [blocks = 0, size = 0] = stdout.toString().trim().split(" ").map(Number);
  const { disk_total, disk_used } = await meter().read();
  expect(disk_total).toBe(blocks * size);
  expect(disk_used).toBeGreaterThan(0);
  expect(disk_used).toBeLessThanOrEqual(disk_total);
});
