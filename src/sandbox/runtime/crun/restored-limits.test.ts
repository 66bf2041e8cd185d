/** Limits on test folders, so that both cgroup layouts are covered; restored-isolation.test.ts has the real ones. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../base/testing/test-folder.ts";
import { limitRestored, makeCgroupForRestore } from "./restored-limits.ts";

const CGROUP = "sandlot/test/sandbox";
const size = { cpuCount: 2, memoryMB: 512, processors: "0,1" };

const root = folderOfTest("limits");

function limits(): Record<string, string> {
  const folder = join(root, CGROUP);
  return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

test("with cgroup v2, a sandbox has twice its limits until it is restored", () => {
  writeFileSync(join(root, "cgroup.controllers"), "");
  makeCgroupForRestore(CGROUP, size, root);
  const always = { "cpu.max": "200000 100000", "cpuset.cpus": "0,1" };
  expect(limits()).toEqual({ ...always, "memory.max": String(1024 * 1024 * 1024), "pids.max": "8192" });
  limitRestored(CGROUP, size, root);
  expect(limits()).toEqual({ ...always, "memory.max": String(512 * 1024 * 1024), "pids.max": "4096" });
});

test("with cgroup v2, swap is off if the kernel has it, and no processor list means all processors", () => {
  writeFileSync(join(root, "cgroup.controllers"), "");
  mkdirSync(join(root, CGROUP), { recursive: true });
  writeFileSync(join(root, CGROUP, "memory.swap.max"), "max");
  makeCgroupForRestore(CGROUP, { ...size, processors: undefined }, root);
  expect(limits()["memory.swap.max"]).toBe("0");
  expect(limits()).not.toHaveProperty("cpuset.cpus");
});

test("with cgroup v1, CRIU sets the limits", () => {
  makeCgroupForRestore(CGROUP, size, root);
  limitRestored(CGROUP, size, root);
  expect(existsSync(join(root, CGROUP))).toBe(false);
});
