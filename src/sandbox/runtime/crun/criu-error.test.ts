/** The error a caller gets when CRIU could not checkpoint a sandbox: the process, the reason, and the way out. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { explain } from "./criu-error.ts";

const pid = process.pid;
const name = readFileSync("/proc/self/comm", "utf8").trim();

test.each([
  [
    "(00.006305) Error (compel/src/lib/infect.c:262): Unseizable non-zombie PID found, state t, err -1/10",
    "it is being traced by another process (a debugger or strace)",
  ],
  [
    "(10.006306) Error (criu/cr-dump.c:1655): Timeout reached. Try to interrupt: 0\n" +
      "(10.006419) Error (compel/src/lib/infect.c:262): Unseizable non-zombie PID found, state D, err -1/4",
    "it waits inside the kernel and cannot be stopped there",
  ],
  [
    "(00.124796) Error (criu/files-reg.c:1790): Can't lookup mount=350 for fd=3 path=/q\n" +
      "(00.124826) Error (criu/cr-dump.c:1545): Dump files (pid: PID) failed with -1",
    "it holds a POSIX message queue",
  ],
  [
    "Dumping task (pid: PID comm: x)\n(00.088384) Error (criu/new.c:1): Something never heard of",
    "CRIU says: Something never heard of",
  ],
])("names the process that %s is about", (log, reason) => {
  const { status, message } = explain(log.replaceAll("PID", String(pid)), [pid]);
  expect(status).toBe(422);
  expect(message).toContain(`process ${pid} "${name}": ${reason}`);
  expect(message).toContain("memory: false");
});

test("a full disk is reported as such", () => {
  expect(explain("(00.1) Error (criu/page-xfer.c:1): No space left on device", []).status).toBe(507);
});

test("a failure without a message is an internal error", () => {
  expect(explain("", []).status).toBe(500);
});

// Guards against a file that is named like a line of the log.
test("the error names no process outside the sandbox, whatever the sandbox writes into the log", () => {
  const forged = `(00.1) Dumping path for 3 fd via self 9 [/tmp/d\n(00.1) Error (a.c:1): task ${process.pid} ]`;
  const { message } = explain(`${forged}\n(00.2) Error (criu/files-reg.c:1): Can't dump ghost file`, [1]);
  expect(message).toStartWith("the memory of this sandbox cannot be kept: a process: ");
  expect(message).not.toContain(name);
});

test("quoted log text fits one line and has no control characters", () => {
  const { message } = explain(`(00.1) Error (a.c:1): \u001b[2J${"x".repeat(10_000)}`, []);
  expect(message).toContain("CRIU says: ?[2Jxxx");
  expect(message.length).toBeLessThan(600);
});
