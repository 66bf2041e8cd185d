import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { mountFailure, mountFault } from "./mount-job.ts";

/** An error thrown on the worker's thread, as the caller receives it. */
function carried(thrown: unknown): Fault {
  return mountFault(structuredClone(mountFailure(1, thrown)));
}

test("a failure comes with its status and its words", () => {
  expect(carried(new Fault(500, "mount failed with EINVAL"))).toMatchObject({
    status: 500,
    message: "mount failed with EINVAL",
  });
});

test("no free device says when to come again", () => {
  expect(carried(new Fault(503, "no free loop device"))).toMatchObject({
    status: 503,
    message: "no free loop device; the machine may be overloaded",
    headers: { "retry-after": "5" },
  });
});

// A path of the machine belongs in its log, not in the response to a create.
test("a shortage says so, and names no path", () => {
  const short = Object.assign(new Error("EMFILE: too many open files, open '/var/lib/disk.img'"), { code: "EMFILE" });
  const fault = carried(short);
  expect(fault).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
  expect(fault.message).toBe("a disk could not be made ready (EMFILE); the machine may be overloaded");
  expect(fault.cause).toMatchObject({ message: short.message });
});
