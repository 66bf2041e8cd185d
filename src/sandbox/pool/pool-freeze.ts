/**
 * What waits in the ready pool uses nothing: it stands still, unless there is nothing in it that could run by itself.
 * To let a sandbox go that stands still takes the kernel a millisecond, in which somebody waits for it.
 */
import { freeze, freezerOf, processesBelow, thaw } from "../../system/cgroup/freezer.ts";
import type { RunningSandbox } from "../running-sandboxes.ts";

/** For one that has just been booted, before anything of its template has run. Never throws. */
export async function noteGuest({ record: { cgroup }, ahead }: RunningSandbox): Promise<void> {
  if (!ahead?.showsProcesses) return;
  // Without a list of them it stands still in any case.
  const guest = await processesOf(cgroup).catch(() => undefined);
  if (guest !== undefined) ahead.guest = guest;
}

/** When it throws, it runs on. */
export async function putAside({ record: { cgroup }, ahead }: RunningSandbox): Promise<void> {
  if (ahead?.guest !== undefined && ahead.guest === (await processesOf(cgroup))) return;
  if (ahead !== undefined) ahead.isStopped = true;
  await freeze(cgroup);
}

export function takeUp({ record: { cgroup }, ahead }: RunningSandbox): void {
  if (ahead?.isStopped === false) return;
  if (ahead !== undefined) ahead.isStopped = false;
  thaw(cgroup);
}

async function processesOf(cgroup: string): Promise<string> {
  return (await processesBelow(freezerOf(cgroup))).toSorted((one, other) => one - other).join();
}
