/** Tools that create or dump a sandbox run in a cgroup beside it, where the next server finds them. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { freezerOf } from "../../system/cgroup/freezer.ts";
import { reserveForMachine } from "../../system/cgroup/machine-share.ts";
import { makeParentCgroup } from "../../system/cgroup/parents.ts";
import { endAll } from "../../system/cgroup/removal.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { CHECKPOINT_MS } from "../limits.ts";

export type ToolAction = "dump" | "restore";

const POLL_MS = 20;

export function toolCgroup(data: DataFolder, id: string, action: ToolAction): string {
  return `${data.cgroup}/${id}.${action}`;
}

/** Makes the parent cgroup. Creates run concurrently: if each made it, one would find it not yet usable. */
export function makeParent({ cgroup }: DataFolder): void {
  if (existsSync(freezerOf(cgroup))) return;
  makeParentCgroup(cgroup);
  reserveForMachine(cgroup);
}

/** Ends the tools of unfinished restores first; afterwards the processes they made can be found and removed. */
export async function endRestores(data: DataFolder): Promise<void> {
  const folder = freezerOf(data.cgroup);
  if (!existsSync(folder)) return;
  const restores = readdirSync(folder).filter((name) => name.endsWith(".restore"));
  await endAll(restores.map((name) => `${data.cgroup}/${name}`));
}

/** Waits for a dump. Killing the tool could damage the processes it is working in. */
export async function waitForDump(cgroup: string): Promise<void> {
  const deadline = performance.now() + CHECKPOINT_MS;
  while (isAtWork(cgroup) && performance.now() < deadline) await Bun.sleep(POLL_MS);
}

function isAtWork(cgroup: string): boolean {
  const members = join(freezerOf(cgroup), "cgroup.procs");
  return existsSync(members) && readFileSync(members, "utf8").trim() !== "";
}

/** Ids of sandboxes that have a cgroup, whichever runtime made it. */
export async function sandboxCgroups(data: DataFolder): Promise<string[]> {
  const cgroups = await readdir(freezerOf(data.cgroup), { withFileTypes: true }).catch(() => []);
  // Names with a dot are the cgroups of tools.
  return cgroups.filter((entry) => entry.isDirectory() && !entry.name.includes(".")).map(({ name }) => name);
}
