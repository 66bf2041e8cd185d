/** A crun that misbehaves; runtime-contract.test.ts uses the real one. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attempt } from "../../../system/command.ts";
import { Crun } from "./crun.ts";

const SHORT_MS = 100;
/** Timeout for programs that end by themselves, on a busy machine. */
const LONG_MS = 60_000;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandlot-crun-"));
  mkdirSync(join(folder, "state"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A shell line in its place, which finds the arguments in `$@`. */
function acting(line: string, startMs = LONG_MS): Crun {
  const toolbox = { crun: ["/bin/sh", "-c", line, "crun"], binFolder: "/nowhere" };
  return new Crun(toolbox, join(folder, "state"), startMs);
}

test.each(["create", "start"] as const)("a %s that takes too long is a reason to come again", async (action) => {
  const slow = acting("exec sleep 60", SHORT_MS);
  const late = action === "create" ? slow.create("i1", folder) : slow.start("i1", process.pid);
  await expect(late).rejects.toMatchObject({
    status: 503,
    message: `crun ${action} did not end within ${SHORT_MS} ms; the machine may be overloaded`,
    headers: { "retry-after": "5" },
  });
});

// Seen to fail: a sandbox that had been made was taken back.
test("a create that has ended in time is none that took too long, however late this is heard", async () => {
  const made = acting('sleep 0.1; while [ $# -gt 0 ]; do [ "$1" = --pid-file ] && echo 4711 > "$2"; shift; done', 500);
  const heardLate = made.create("i1", folder);
  await attempt(["true"]);
  // By now both have happened, and timers come first.
  Bun.sleepSync(1000);
  expect(await heardLate).toBe(4711);
});

test("a start whose sandbox has ended meanwhile is over at once", async () => {
  const child = Bun.spawn(["true"]);
  await child.exited;
  await expect(acting("exec sleep 60").start("i1", child.pid)).rejects.toMatchObject({
    status: 500,
    message: "the first process of i1 ended before it was started",
  });
});

test("one that the machine killed before is not", async () => {
  await expect(acting("kill -9 $$").create("i1", folder)).rejects.toMatchObject({ status: 500 });
});

test("what it says in its log is in the error", async () => {
  const refusing = acting(`echo 'no such thing' > '${join(folder, "crun.log")}'; exit 1`);
  await expect(refusing.create("i1", folder)).rejects.toThrow("crun create ended with 1: no such thing");
});
