/**
 * Sandboxes in the ready pool use no CPU: they are frozen, unless only the guest's own idle processes run in them.
 * Thawing a sandbox takes the kernel a millisecond of a client's create.
 */
import { freeze, freezerOf, processesBelow, thaw } from "../../system/cgroup/freezer.ts";
import type { RunningSandbox } from "../running-sandboxes.ts";

/** Records the processes of a freshly booted sandbox, before anything of its template has run. Never throws. */
export async function noteGuest({ record: { cgroup }, ahead }: RunningSandbox): Promise<void> {
  if (!ahead?.showsProcesses) return;
  // Without this list the sandbox is always frozen.
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
