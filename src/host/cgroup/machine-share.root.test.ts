/** On a cgroup of the test's own, with a process that really takes too much. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CGROUP_ROOT, makeParentCgroup } from "./cgroups.ts";
import { leaveMemoryToMachine, memoryForSandboxes } from "./machine-share.ts";
import { removeCgroups } from "./removal.ts";

const GIB = 1024 ** 3;
const TOP = `sandlot-share-${process.pid}`;
const BOUND = 48 * 1024 * 1024;
afterAll(() => removeCgroups(TOP));

test.each([
  [64 * GIB, 60 * GIB],
  [8 * GIB, 7.5 * GIB],
  [2 * GIB, 1.5 * GIB],
  [0.5 * GIB, 0.25 * GIB],
])("of %p bytes, sandboxes may have %p", (total, share) => {
  expect(memoryForSandboxes(total)).toBe(share);
});

// Seen to fail without leaveMemoryToMachine(): the process had its 200 MB.
test("a process of a sandbox is ended when all of them have taken their share, and no other is", async () => {
  makeParentCgroup(`${TOP}/server`);
  leaveMemoryToMachine(`${TOP}/server`, BOUND);
  const memory = existsSync(join(CGROUP_ROOT, "memory")) ? join(CGROUP_ROOT, "memory") : CGROUP_ROOT;
  const sandbox = join(memory, TOP, "server/sandbox");
  mkdirSync(sandbox);
  const enter = `echo $$ > ${sandbox}/cgroup.procs && exec python3 -c 'bytearray(200 << 20)'`;
  const greedy = Bun.spawn(["sh", "-c", enter], { stdout: "ignore", stderr: "ignore" });
  await greedy.exited;
  expect(greedy.signalCode).toBe("SIGKILL");
});

test("a limit that is lower already stays", () => {
  leaveMemoryToMachine(`${TOP}/server`, 2 * BOUND);
  const files = [join(CGROUP_ROOT, "memory", TOP, "memory.limit_in_bytes"), join(CGROUP_ROOT, TOP, "memory.max")];
  expect(Number(readFileSync(files.find((path) => existsSync(path)) ?? "", "utf8"))).toBe(BOUND);
});
