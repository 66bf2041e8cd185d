/** What a failed boot is to whoever asked; failed-starts.test.ts in tests/functional/host boots real ones. */
import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { bootFault } from "./booting.ts";

test("no room says so itself", () => {
  const noRoom = new Fault(503, "all 4093 network slots are in use");
  expect(bootFault("i1", noRoom)).toBe(noRoom);
});

test("a machine that is short of files, processes or memory says so, and when to come again", () => {
  const short = Object.assign(new Error("too many open files"), { code: "EMFILE" });
  expect(bootFault("i1", short)).toMatchObject({ status: 503, cause: short, headers: { "retry-after": "5" } });
});

test("any other failure is ours, and keeps its cause for the log", () => {
  const cause = new Fault(422, "never heard of");
  expect(bootFault("i1", cause)).toMatchObject({ status: 500, message: "sandbox i1 could not be booted", cause });
});
