/** The error that a caller gets for a failed start; failed-starts.test.ts in tests/functional/host starts real ones. */
import { expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { RETRY_WITHIN_MS, requireRetryable, startFault } from "./start-fault.ts";

const MESSAGE = "sandbox i1 could not be booted";

test("an error about capacity stays unchanged", () => {
  const noRoom = new Fault(503, "all 4093 network slots are in use");
  expect(startFault(MESSAGE, noRoom)).toBe(noRoom);
});

test("a machine short of files, processes or memory is a 503 with Retry-After", () => {
  const short = Object.assign(new Error("too many open files"), { code: "EMFILE" });
  expect(startFault(MESSAGE, short)).toMatchObject({ status: 503, cause: short, headers: { "Retry-After": "5" } });
});

test("a kernel error wrapped in another is a 503 with Retry-After", () => {
  const short = Object.assign(new Error("no memory"), { code: "ENOMEM" });
  const cause = new Fault(500, "mounting failed", { cause: short });
  expect(startFault(MESSAGE, cause)).toMatchObject({ status: 503, cause, headers: { "Retry-After": "5" } });
});

test("any other failure is a 500, and keeps its cause for the log", () => {
  const cause = new Fault(422, "never heard of");
  expect(startFault(MESSAGE, cause)).toMatchObject({ status: 500, message: MESSAGE, cause });
});

test.each([
  ["an unknown reason", new Fault(500, "the sandbox ended while it was starting")],
  ["an error of the system", Object.assign(new Error("no such file"), { code: "ENOENT" })],
])("a failure for %s is retried", (_, cause) => {
  expect(() => requireRetryable(cause, RETRY_WITHIN_MS)).not.toThrow();
});

test.each([404, 422, 503, 507])("status %d names its cause and is final", (status) => {
  const cause = new Fault(status, "as it is");
  expect(() => requireRetryable(cause, 0)).toThrow(cause);
});

test("a failure that took too long is a 503 with Retry-After", () => {
  const cause = new Fault(500, "late");
  let thrown: unknown;
  try {
    requireRetryable(cause, RETRY_WITHIN_MS + 1);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toMatchObject({ status: 503, cause, headers: { "Retry-After": "5" } });
});
