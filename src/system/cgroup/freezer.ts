/** Freezes and thaws all processes of a sandbox at once. `cgroup` is a path below each hierarchy's root. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { CGROUP_ROOT, cgroupLayout } from "./cgroups.ts";

const FREEZE_MS = scaled(10_000);

const POLL_MS = 1;

/** The folder of the freezer cgroup; CRIU needs it, too. */
export function freezerOf(cgroup: string): string {
  return cgroupLayout() === "v2" ? join(CGROUP_ROOT, cgroup) : join(CGROUP_ROOT, "freezer", cgroup);
}

/** When it throws, the sandbox has been thawed again. */
export async function freeze(cgroup: string): Promise<void> {
  const deadline = performance.now() + FREEZE_MS;
  set(cgroup, true);
  while (!isFrozen(cgroup)) {
    if (performance.now() > deadline) {
      set(cgroup, false);
      throw new Fault(
        503,
        `the sandbox could not be stopped within ${FREEZE_MS} ms; it is still running. Try again later`,
      );
    }
    await Bun.sleep(POLL_MS);
  }
}

/** Starts to freeze without waiting: the processes may be stopped by something else until later. */
export function beginToFreeze(cgroup: string): void {
  set(cgroup, true);
}

/** No-op if the sandbox is not frozen or gone. */
export function thaw(cgroup: string): void {
  if (existsSync(freezerOf(cgroup))) set(cgroup, false);
}

/** All processes in the cgroup with this folder and its descendants. */
export async function processesBelow(folder: string): Promise<number[]> {
  const own = readFileSync(join(folder, "cgroup.procs"), "utf8").trim().split("\n").filter(Boolean).map(Number);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) own.push(...(await processesBelow(join(folder, entry.name))));
  }
  return own;
}

function set(cgroup: string, frozen: boolean): void {
  const folder = freezerOf(cgroup);
  if (cgroupLayout() === "v2") writeFileSync(join(folder, "cgroup.freeze"), frozen ? "1" : "0");
  else writeFileSync(join(folder, "freezer.state"), frozen ? "FROZEN" : "THAWED");
}

export function isFrozen(cgroup: string): boolean {
  const folder = freezerOf(cgroup);
  return cgroupLayout() === "v2"
    ? /^frozen 1$/m.test(readFileSync(join(folder, "cgroup.events"), "utf8"))
    : readFileSync(join(folder, "freezer.state"), "utf8").trim() === "FROZEN";
}
