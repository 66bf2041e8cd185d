/** Process limits, really set. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { canRaiseUserLimits, limitUsers, raiseUserLimits, userLimitsFor } from "./user-limits.ts";

/** Soft and hard, as the kernel shows them. */
function shown(pid: number | "self", name: string): string[] {
  const line = readFileSync(`/proc/${pid}/limits`, "utf8")
    .split("\n")
    .find((each) => each.startsWith(`Max ${name}`));
  return line?.slice(26).trim().split(/\s+/).slice(0, 2) ?? [];
}

const NAMES = ["processes", "locked memory", "pending signals", "msgqueue size"];

test("a process gets what is said, and its children after it", async () => {
  const child = Bun.spawn(["/bin/sh", "-c", "read go; exec cat /proc/self/limits"], { stdin: "pipe", stdout: "pipe" });
  limitUsers(child.pid, [
    { type: "RLIMIT_SIGPENDING", soft: 77, hard: 88 },
    { type: "RLIMIT_MSGQUEUE", soft: 0, hard: 99 },
  ]);
  child.stdin.write("\n");
  await child.stdin.end();
  const limits = await new Response(child.stdout).text();
  expect(limits).toMatch(/^Max pending signals +77 +88 /m);
  expect(limits).toMatch(/^Max msgqueue size +0 +99 /m);
});

test("more than a server may have is refused with the name of the limit", () => {
  expect(() => limitUsers(2 ** 30, [{ type: "RLIMIT_NPROC", soft: 1, hard: 1 }])).toThrow("prlimit RLIMIT_NPROC");
});

test("to look whether limits can be raised leaves them as they are", () => {
  const before = NAMES.map((name) => shown("self", name));
  canRaiseUserLimits();
  expect(NAMES.map((name) => shown("self", name))).toEqual(before);
});

test("after they were raised, sandboxes have as many processes and as much locked memory as before", () => {
  const before = userLimitsFor(512);
  raiseUserLimits();
  raiseUserLimits();
  expect(userLimitsFor(512).slice(0, 2)).toEqual(before.slice(0, 2));
  for (const name of NAMES) {
    const [soft, hard] = shown("self", name);
    expect(soft).toBe(String(hard));
  }
});

test("a sandbox has as many pending signals as a machine of its size, and no less than a thousand", () => {
  const signals = (memoryMB: number) => userLimitsFor(memoryMB).find(({ type }) => type === "RLIMIT_SIGPENDING");
  expect([128, 512, 1024].map((memoryMB) => signals(memoryMB)?.hard)).toEqual([1024, 2048, 4096]);
});
