/** First processes of sandboxes, as real processes: they end, are released, and are many. */
import { afterEach, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { startTicks } from "../system/start-ticks.ts";
import { FirstProcesses } from "./first-processes.ts";

const started: Bun.Subprocess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

function sleeper(): Bun.Subprocess {
  const child = Bun.spawn(["sleep", "600"]);
  started.push(child);
  return child;
}

function facts(pid: number) {
  return { pid, pidStartTicks: startTicks(pid) ?? "" };
}

/** Counted by process: other tests of this run open and close files of their own meanwhile. */
function openPidfds(pid: number): number {
  const isOf = (fd: string) => {
    try {
      return readFileSync(`/proc/self/fdinfo/${fd}`, "utf8").includes(`\nPid:\t${pid}\n`);
    } catch {
      return false;
    }
  };
  return readdirSync("/proc/self/fdinfo").filter(isOf).length;
}

test("those that have ended are named, all others are not", async () => {
  const processes = new FirstProcesses();
  const children = Array.from({ length: 20 }, sleeper);
  for (const [at, { pid }] of children.entries()) processes.watch(`i${at}`, facts(pid));
  expect(processes.ended()).toEqual([]);
  for (const at of [3, 17]) children[at]?.kill("SIGKILL");
  await Promise.all([children[3]?.exited, children[17]?.exited]);
  expect(processes.ended()).toEqual(["i3", "i17"]);
  expect(["i3", "i4", "i17", "unknown"].map((id) => processes.isAlive(id))).toEqual([false, true, false, false]);
  processes.leave("i3");
  expect(processes.ended()).toEqual(["i17"]);
});

test("one that had ended before, or whose number is another's now, has ended", async () => {
  const processes = new FirstProcesses();
  const child = sleeper();
  const gone = facts(child.pid);
  child.kill("SIGKILL");
  await child.exited;
  processes.watch("gone", gone);
  processes.watch("another's", { pid: process.pid, pidStartTicks: "1" });
  processes.watch("there", facts(process.pid));
  expect(processes.ended()).toEqual(["gone", "another's"]);
  expect(["gone", "another's", "there"].map((id) => processes.isAlive(id))).toEqual([false, false, true]);
});

test("nothing is kept of those that were left, or watched anew", () => {
  const processes = new FirstProcesses();
  const { pid } = sleeper();
  processes.watch("i0", facts(pid));
  const watched = openPidfds(pid);
  for (let times = 0; times < 50; times++) processes.watch("i0", facts(pid));
  expect(openPidfds(pid)).toBe(watched);
  processes.leave("i0");
  processes.leave("i0");
  expect(openPidfds(pid)).toBe(watched - 1);
  expect(processes.ended()).toEqual([]);
});
