/** What counts as standing still, seen with a cgroup that is empty first and holds a process that sleeps then. */
import { expect, test } from "bun:test";
import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freezerOf } from "../../cgroup/freezer.ts";
import { STALL_CHECK_MS } from "../../limits.ts";
import { StallWatch } from "./stall-watch.ts";

// Seen to fail with a watch that takes who is not there yet for one that stands still.
test("who is not there yet does not stand still, and who sleeps there does", async () => {
  const cgroup = `sandlot-stall-${process.pid}`;
  const folder = freezerOf(cgroup);
  mkdirSync(folder);
  const sleeper = Bun.spawn(["sleep", "60"]);
  try {
    let stalls = 0;
    const stalled = () => void stalls++;
    using _watch = new StallWatch([cgroup], 1, { stalled, hasEnded: () => false, ended: () => undefined });
    await Bun.sleep(2.5 * STALL_CHECK_MS);
    expect(stalls).toBe(0);
    writeFileSync(join(folder, "cgroup.procs"), String(sleeper.pid));
    const deadline = performance.now() + 10 * STALL_CHECK_MS;
    while (stalls === 0 && performance.now() < deadline) await Bun.sleep(STALL_CHECK_MS);
    expect(stalls).toBe(1);
  } finally {
    sleeper.kill("SIGKILL");
    await sleeper.exited;
    rmdirSync(folder);
  }
});

// Seen to fail with one that believes it at once: it ended sandboxes that had just been restored.
test("who has ended is told of when it was so twice in a row: what it said at last is heard before", async () => {
  const looks = [true, false, true, true, true];
  const told: number[] = [];
  const watched = {
    stalled: () => undefined,
    hasEnded: () => looks.shift() ?? false,
    ended: () => void told.push(looks.length),
  };
  using _watch = new StallWatch([], 60_000, watched, 5);
  while (told.length === 0) await Bun.sleep(1);
  await Bun.sleep(50);
  expect(told).toEqual([1]);
});
