import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { memoryLeft } from "./memory-left.ts";

const GIB = 1024 ** 3;
const UNLIMITED = "9223372036854771712";
const folder = folderOfFile("memory-left");

function machine(name: string, cgroups: Record<string, Record<string, string>>) {
  const system = { cgroup: join(folder, name), meminfo: join(folder, `${name}-meminfo`) };
  writeFileSync(system.meminfo, `MemTotal: ${8 * 1024 ** 2} kB\nMemFree: 1 kB\nMemAvailable: ${6 * 1024 ** 2} kB\n`);
  for (const [path, files] of Object.entries(cgroups)) {
    mkdirSync(join(system.cgroup, path), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(system.cgroup, path, file), text);
  }
  return system;
}

const v1 = (limit: string, used: number, files = 0) => ({
  "memory.limit_in_bytes": limit,
  "memory.usage_in_bytes": String(used),
  "memory.stat": `inactive_file 7\ntotal_inactive_file ${files}\ntotal_active_file 0\n`,
});
const v2 = (limit: string, used: number, files = 0) => ({
  "memory.max": limit,
  "memory.current": String(used),
  "memory.stat": `anon 5\ninactive_file ${files}\nactive_file 0\n`,
});

describe("free memory", () => {
  test.each<[string, Record<string, Record<string, string>>, number, number]>([
    ["without cgroups", {}, 8, 6],
    ["v1-unlimited", { "memory/sandlot/t": v1(UNLIMITED, GIB) }, 8, 6],
    ["v1-limited", { memory: v1(UNLIMITED, GIB), "memory/sandlot": v1(String(4 * GIB), 3 * GIB, GIB) }, 4, 2],
    ["v1-container", { memory: v1(String(3 * GIB), 2 * GIB) }, 3, 1],
    ["v2-unlimited", { "sandlot/t": v2("max\n", GIB) }, 8, 6],
    ["v2-limited", { sandlot: v2(`${7 * GIB}\n`, 6 * GIB), "sandlot/t": v2("max\n", GIB) }, 7, 1],
    ["v2-used-up", { "sandlot/t": v2(String(GIB), 2 * GIB) }, 1, 0],
  ])("%s", (name, cgroups, total, available) => {
    expect(memoryLeft("/sandlot/t", machine(name, cgroups))).toEqual({
      totalBytes: total * GIB,
      availableBytes: available * GIB,
    });
  });

  test("on this machine", () => {
    const { totalBytes, availableBytes } = memoryLeft("/sandlot/none");
    expect(availableBytes).toBeGreaterThan(0);
    expect(availableBytes).toBeLessThanOrEqual(totalBytes);
  });
});
