/** State folders as crun leaves them; runtime-contract.test.ts uses the real crun. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { closeSync, constants, existsSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTicks } from "../../../system/start-ticks.ts";
import { removeEnded, startMade } from "./crun-state.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandlot-crun-state-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("starting", () => {
  const fifo = () => join(folder, "exec.fifo");
  const makeFifo = () => Bun.spawnSync(["mkfifo", fifo()]);

  test("is a word to the first process, which holds the other end", () => {
    makeFifo();
    const held = openSync(fifo(), constants.O_RDONLY | constants.O_NONBLOCK);
    expect(startMade(folder, "i1")).toBe(true);
    expect([readSync(held, Buffer.alloc(8)), existsSync(fifo())]).toEqual([1, false]);
    closeSync(held);
    // There is nothing left to start.
    expect(startMade(folder, "i1")).toBe(false);
  });

  test("fails at once when the first process has ended", () => {
    makeFifo();
    expect(() => startMade(folder, "i1")).toThrow("the first process of i1 ended before it was started");
  });
});

describe("removing", () => {
  const own = Number(startTicks(process.pid));
  const write = (status: string) => writeFileSync(join(folder, "status"), status);

  test.each([
    ["a process that runs", JSON.stringify({ pid: process.pid, "process-start-time": own })],
    ["nothing", "null"],
    ["half of it", '{ "pid": 12,'],
    ["no time", '{ "pid": 2147483646 }'],
    ["no process", '{ "process-start-time": 7 }'],
  ])("is left to crun when it has noted %s", async (_, status) => {
    write(status);
    expect([await removeEnded(folder), existsSync(folder)]).toEqual([false, true]);
  });

  test("is left to crun when it has noted nothing yet", async () => {
    expect([await removeEnded(folder), existsSync(folder)]).toEqual([false, true]);
  });

  test.each([
    ["has ended", 2_147_483_646, own],
    ["has ended, and whose number is another's", process.pid, own + 1],
  ])("is done when the first process %s", async (_, pid, ticks) => {
    write(JSON.stringify({ pid, "process-start-time": ticks }));
    expect([await removeEnded(folder), existsSync(folder)]).toEqual([true, false]);
  });
});
