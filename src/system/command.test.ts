import { expect, test } from "bun:test";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { attempt, cannotStart, run } from "./command.ts";
import { unnoticedEnd } from "./testing/unnoticed-end.ts";

/** A program ends within the first time; that is noticed after the second. */
const TIMEOUT_MS = 2_000;
const NOTICED_MS = 2_200;
const folder = folderOfTest("command");

test("a command that times out is killed, and the 503 does not contain its arguments", async () => {
  const late = attempt(["sleep", "60"], { timeoutMs: 50 });
  await expect(late).rejects.toMatchObject({
    status: 503,
    message: "sleep did not end within 50 ms; the machine may be overloaded",
    headers: { "Retry-After": "5" },
    cause: { message: "sleep 60 did not end within 50 ms and was killed" },
  });
  const named = attempt(["sleep", "60"], { timeoutMs: 50, name: "crun delete" });
  await expect(named).rejects.toThrow("crun delete did not end within 50 ms");
});

// Guards against a finished command that counts as failed and is undone.
test("a command that ended in time is no timeout, however late its end is noticed", async () => {
  const { wait, endUnnoticed } = unnoticedEnd(folder);
  const heardLate = attempt(["sh", "-c", `${wait}; echo done; exit 3`], { timeoutMs: TIMEOUT_MS });
  // Once this process notices anything again, timers come first.
  await attempt(["true"]);
  endUnnoticed(NOTICED_MS);
  expect(await heardLate).toMatchObject({ exitCode: 3, stdout: "done\n" });
});

test("a failed command has its reason, and is not retryable", async () => {
  const failed = run(["sh", "-c", "echo no such thing >&2; exit 3"]);
  await expect(failed).rejects.toMatchObject({ status: 500, message: expect.stringContaining("no such thing") });
});

test("a start that fails for lack of processes or files is retryable; a missing program is not", async () => {
  const short = Object.assign(new Error("resource temporarily unavailable"), { code: "EAGAIN" });
  expect(cannotStart("/usr/sbin/ip", short)).toMatchObject({
    status: 503,
    message: "ip could not be started (EAGAIN); the machine may be overloaded",
    headers: { "Retry-After": "5" },
  });
  await expect(attempt(["/no/such/program"])).rejects.toMatchObject({ status: 500 });
});
