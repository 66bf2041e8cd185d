/** Ready sandboxes are frozen while they wait, in cgroups of the real kernel. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cgroupTrees } from "../../system/cgroup/cgroups.ts";
import { freezerOf, isFrozen } from "../../system/cgroup/freezer.ts";
import { removeCgroups } from "../../system/cgroup/removal.ts";
import type { RunningSandbox } from "../running-sandboxes.ts";
import { noteGuest, putAside, takeUp } from "./pool-freeze.ts";

const PATH = `/sandlot-test-shelf-${process.pid}`;

beforeEach(() => {
  for (const tree of cgroupTrees()) mkdirSync(join(tree, PATH, "below"), { recursive: true });
});
afterEach(() => removeCgroups(PATH));

function runIn(cgroup: string): Bun.Subprocess {
  const child = Bun.spawn(["sleep", "600"]);
  writeFileSync(join(freezerOf(cgroup), "cgroup.procs"), String(child.pid));
  return child;
}

async function booted(ahead: RunningSandbox["ahead"]): Promise<RunningSandbox> {
  const sandbox = { record: { cgroup: PATH }, ...(ahead && { ahead }) } as RunningSandbox;
  runIn(PATH);
  await noteGuest(sandbox);
  return sandbox;
}

const shown = () => ({ showsProcesses: true, isStopped: false });

test("one with nothing but its guest does not", async () => {
  const sandbox = await booted(shown());
  await putAside(sandbox);
  expect(isFrozen(PATH)).toBe(false);
  takeUp(sandbox);
  expect(isFrozen(PATH)).toBe(false);
});

test.each([PATH, `${PATH}/below`])("one in which something was left does, in %s, until it is taken", async (cgroup) => {
  const sandbox = await booted(shown());
  const left = runIn(cgroup);
  for (let time = 0; time < 2; time++) {
    await putAside(sandbox);
    expect(isFrozen(PATH)).toBe(true);
    takeUp(sandbox);
    expect(isFrozen(PATH)).toBe(false);
  }
  left.kill("SIGKILL");
  await left.exited;
  await putAside(sandbox);
  expect(isFrozen(PATH)).toBe(false);
});

test("one in which another process is in the place of the guest's does", async () => {
  const sandbox = await booted(shown());
  await removeCgroups(`${PATH}/below`);
  const [guest = 0] = (sandbox.ahead?.guest ?? "").split(",").map(Number);
  runIn(PATH);
  process.kill(guest, "SIGKILL");
  await putAside(sandbox);
  expect(isFrozen(PATH)).toBe(true);
});

test.each([
  ["whose processes cannot be seen", { showsProcesses: false, isStopped: false }],
  ["from a checkpoint", undefined],
])("one %s does, whatever is in it", async (_, ahead) => {
  const sandbox = await booted(ahead);
  await putAside(sandbox);
  expect(isFrozen(PATH)).toBe(true);
  takeUp(sandbox);
  expect(isFrozen(PATH)).toBe(false);
});

test("one whose processes could not be listed when it was new does", async () => {
  const sandbox = { record: { cgroup: `${PATH}/gone` }, ahead: shown() } as RunningSandbox;
  await noteGuest(sandbox);
  sandbox.record.cgroup = PATH;
  runIn(PATH);
  await putAside(sandbox);
  expect(isFrozen(PATH)).toBe(true);
});
