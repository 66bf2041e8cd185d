/** A crun that misbehaves; runtime-contract.test.ts uses the real one. */
import { beforeEach, describe, expect, test } from "bun:test";
import { closeSync, constants, existsSync, mkdirSync, openSync, readSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../base/testing/test-folder.ts";
import { attempt } from "../../../system/command.ts";
import { startTicks } from "../../../system/start-ticks.ts";
import { unnoticedEnd } from "../../../system/testing/unnoticed-end.ts";
import { Crun } from "./crun.ts";

const SHORT_MS = 100;
/** A program ends within the first time; that is noticed after the second. */
const TIMEOUT_MS = 2_000;
const NOTICED_MS = 2_200;
/** Timeout for programs that end by themselves, on a busy machine. */
const LONG_MS = 60_000;
const folder = folderOfTest("crun");
beforeEach(() => void mkdirSync(join(folder, "state")));

/** A shell line in its place, which finds the arguments in `$@`. */
function acting(line: string, startMs = LONG_MS): Crun {
  const toolbox = { crun: ["/bin/sh", "-c", line, "crun"], binFolder: "/nowhere" };
  return new Crun(toolbox, join(folder, "state"), startMs);
}

test("a create that times out is a 503 with Retry-After", async () => {
  await expect(acting("exec sleep 60", SHORT_MS).create("i1", folder)).rejects.toMatchObject({
    status: 503,
    message: `crun create did not end within ${SHORT_MS} ms; the machine may be overloaded`,
    headers: { "Retry-After": "5" },
  });
});

// Guards against undoing a sandbox that was made.
test("a create that ended in time is no timeout, however late its end is noticed", async () => {
  const { wait, endUnnoticed } = unnoticedEnd(folder);
  const line = `${wait}; while [ $# -gt 0 ]; do [ "$1" = --pid-file ] && echo 4711 > "$2"; shift; done`;
  const heardLate = acting(line, TIMEOUT_MS).create("i1", folder);
  await attempt(["true"]);
  endUnnoticed(NOTICED_MS);
  expect(await heardLate).toBe(4711);
});

test("a create that was killed before its timeout is no timeout", async () => {
  await expect(acting("kill -9 $$").create("i1", folder)).rejects.toMatchObject({ status: 500 });
});

test("the error contains crun's log", async () => {
  const refusing = acting(`echo 'no such thing' > '${join(folder, "crun.log")}'; exit 1`);
  await expect(refusing.create("i1", folder)).rejects.toThrow("crun create ended with 1: no such thing");
});

describe("starting", () => {
  const fifo = () => join(folder, "state", "i1", "exec.fifo");
  beforeEach(() => {
    mkdirSync(join(folder, "state", "i1"));
    Bun.spawnSync(["mkfifo", fifo()]);
  });

  test("writes to the fifo of the first process", () => {
    const held = openSync(fifo(), constants.O_RDONLY | constants.O_NONBLOCK);
    acting("exit 1").start("i1");
    expect([readSync(held, Buffer.alloc(8)), existsSync(fifo())]).toEqual([1, false]);
    closeSync(held);
  });

  test("fails at once when the first process has ended", () => {
    expect(() => acting("exit 1").start("i1")).toThrow("the first process of i1 ended before it was started");
  });
});

describe("removing", () => {
  const own = Number(startTicks(process.pid));
  const state = () => join(folder, "state", "i1");
  /** Whether crun is asked. */
  const isLeftToCrun = async (status: string | undefined) => {
    mkdirSync(state());
    if (status !== undefined) writeFileSync(join(state(), "status"), status);
    await acting(`touch '${join(folder, "asked")}'`).remove("i1");
    return existsSync(join(folder, "asked"));
  };

  test.each([
    ["a process that runs", JSON.stringify({ pid: process.pid, "process-start-time": own })],
    ["nothing", "null"],
    ["half of it", '{ "pid": 12,'],
    ["no time", '{ "pid": 2147483646 }'],
    ["no process", '{ "process-start-time": 7 }'],
    ["nothing yet", undefined],
  ])("is left to crun if its state has %s", async (_, status) => {
    expect(await isLeftToCrun(status)).toBe(true);
  });

  test.each([
    ["has ended", 2_147_483_646, own],
    ["has ended, and whose number is another's", process.pid, own + 1],
  ])("is complete when the first process %s", async (_, pid, ticks) => {
    expect(await isLeftToCrun(JSON.stringify({ pid, "process-start-time": ticks }))).toBe(false);
    expect(existsSync(state())).toBe(false);
  });
});
