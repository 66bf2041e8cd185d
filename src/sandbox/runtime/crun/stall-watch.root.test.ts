/** What counts as a stall, in a cgroup that is first empty and then holds a sleeping process. */
import { expect, test } from "bun:test";
import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { untilTrue } from "../../../base/testing/until.ts";
import { processorTimeFile } from "../../../system/cgroup/cgroups.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";
import { STALL_CHECK_MS, StallWatch } from "./stall-watch.ts";

/** A sleeping process that moves into its own cgroup on request. */
async function withSleeper(use: (cgroup: string, goThere: () => void) => Promise<void>): Promise<void> {
  const cgroup = `sandlot-stall-${process.pid}`;
  const folder = freezerOf(cgroup);
  mkdirSync(folder);
  const sleeper = Bun.spawn(["sleep", "60"]);
  try {
    await use(cgroup, () => writeFileSync(join(folder, "cgroup.procs"), String(sleeper.pid)));
  } finally {
    sleeper.kill("SIGKILL");
    await sleeper.exited;
    rmdirSync(folder);
  }
}

// Guards against taking a process that has not arrived yet for a stalled one.
test("an empty cgroup is not stalled, and a sleeping process is", async () => {
  await withSleeper(async (cgroup, goThere) => {
    let stalls = 0;
    using _watch = new StallWatch([cgroup], 1, () => void stalls++);
    await Bun.sleep(2.5 * STALL_CHECK_MS);
    expect(stalls).toBe(0);
    goThere();
    await untilTrue(() => stalls === 1);
  });
});

test("with a counter of processor time, a sleeping process is stalled and a working one is not", async () => {
  const cgroup = `sandlot-stall-busy-${process.pid}`;
  const folders = [...new Set([freezerOf(cgroup), dirname(processorTimeFile(cgroup))])];
  for (const folder of folders) mkdirSync(folder);
  const sleeper = Bun.spawn(["sleep", "600"]);
  const spinner = Bun.spawn(["sh", "-c", "while :; do :; done"]);
  try {
    for (const folder of folders) writeFileSync(join(folder, "cgroup.procs"), String(sleeper.pid));
    for (const folder of folders) writeFileSync(join(folder, "cgroup.procs"), String(spinner.pid));
    let stalls = 0;
    using _watch = new StallWatch([cgroup], 1000, () => void stalls++, 200);
    await Bun.sleep(2400);
    expect(stalls).toBe(0);
    spinner.kill("SIGKILL");
    await untilTrue(() => stalls !== 0);
  } finally {
    for (const child of [sleeper, spinner]) {
      child.kill("SIGKILL");
      await child.exited;
    }
    for (const folder of folders) rmdirSync(folder);
  }
});

// Guards against a watch that counts wall-clock time: it gives up a restore that waited for a blocked server.
test("a process that may have waited for this server is not stalled in that time", async () => {
  await withSleeper(async (cgroup, goThere) => {
    goThere();
    let stalls = 0;
    using _watch = new StallWatch([cgroup], 1000, () => void stalls++, 100);
    await Bun.sleep(300);
    Bun.sleepSync(1500);
    await Bun.sleep(200);
    expect(stalls).toBe(0);
    await untilTrue(() => stalls !== 0);
  });
});
