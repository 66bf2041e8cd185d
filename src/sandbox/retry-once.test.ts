import { expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { RETRY_WITHIN_MS, retryOnce } from "./retry-once.ts";

/** Fails with each of `reasons` in turn, then succeeds. */
function failing(...reasons: unknown[]) {
  let made = 0;
  const make = async () => {
    const reason = reasons[made++];
    if (reason !== undefined) throw reason;
    return "made";
  };
  return { make, times: () => made };
}

test("what fails for an unknown reason is made once more, and the reason is told", async () => {
  const told: unknown[] = [];
  const reason = new Fault(500, "the sandbox ended while it was starting");
  const { make, times } = failing(reason);
  expect(await retryOnce(make, (why) => told.push(why))).toBe("made");
  expect([times(), told]).toEqual([2, [reason]]);
});

test("so is what failed with an error of the system", async () => {
  const { make } = failing(Object.assign(new Error("no such file"), { code: "ENOENT" }));
  expect(await retryOnce(make, () => undefined)).toBe("made");
});

test("a second failure is the caller's to hear, and there is no third try", async () => {
  const { make, times } = failing(new Fault(500, "first"), new Fault(500, "second"));
  await expect(retryOnce(make, () => undefined)).rejects.toThrow("second");
  expect(times()).toBe(2);
});

test.each([404, 422, 503, 507])("status %d says what it is and is final", async (status) => {
  const { make, times } = failing(new Fault(status, "as it is"));
  await expect(retryOnce(make, () => undefined)).rejects.toMatchObject({ status });
  expect(times()).toBe(1);
});

test("nobody is kept waiting for a second try after a first that took too long, but told to come again", async () => {
  let clock = 0;
  const reason = new Fault(500, "late");
  const { make, times } = failing(reason);
  const late = async () => {
    clock += RETRY_WITHIN_MS + 1;
    return await make();
  };
  const failed = retryOnce(
    late,
    () => undefined,
    () => clock,
  );
  await expect(failed).rejects.toMatchObject({ status: 503, cause: reason, headers: { "retry-after": "5" } });
  expect(times()).toBe(1);
});
