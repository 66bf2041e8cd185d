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

test("a process and its children get the given limits", async () => {
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

test("a limit above the server's own is rejected with its name", () => {
  expect(() => limitUsers(2 ** 30, [{ type: "RLIMIT_NPROC", soft: 1, hard: 1 }])).toThrow("prlimit RLIMIT_NPROC");
});

test("the check whether limits can be raised does not change them", () => {
  const before = NAMES.map((name) => shown("self", name));
  canRaiseUserLimits();
  expect(NAMES.map((name) => shown("self", name))).toEqual(before);
});

test("raised server limits do not change the sandboxes' limits", () => {
  const before = userLimitsFor(512);
  raiseUserLimits();
  raiseUserLimits();
  expect(userLimitsFor(512).slice(0, 2)).toEqual(before.slice(0, 2));
  for (const name of NAMES) {
    const [soft, hard] = shown("self", name);
    expect(soft).toBe(String(hard));
  }
});

test("pending signals scale with the sandbox's memory, at least a thousand", () => {
  const signals = (memoryMB: number) => userLimitsFor(memoryMB).find(({ type }) => type === "RLIMIT_SIGPENDING");
  expect([128, 512, 1024].map((memoryMB) => signals(memoryMB)?.hard)).toEqual([1024, 2048, 4096]);
});
