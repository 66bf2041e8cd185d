/**
 * Ends the processes in cgroups and removes the cgroups, in every hierarchy at once and with one deadline. The kernel
 * releases a process only after it has freed everything the process had, and a sandbox may have had much, or wait for a
 * disk.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { cgroupTrees } from "./cgroups.ts";

/** However many hierarchies it is in. The memory of a large sandbox takes a while to be freed. */
export const CGROUP_REMOVE_MS = scaled(20_000);
const UNENDED_SHOWN_MAX = 20;
/** Killed processes are gone within a few milliseconds; the retry delays grow from the first to the second. */
const CGROUP_REMOVE_RETRY_MIN_MS = 1;
const CGROUP_REMOVE_RETRY_MAX_MS = 20;
/** How often all hierarchies are searched for remaining processes. */
const CGROUP_CHECK_MS = 100;

const LINKS_WITHOUT_FOLDERS = 2;

/** A process in a cgroup was killed and still runs. None of its resources were given to another sandbox. */
export class ProcessesRemain extends Fault {
  /** The remaining processes, for the operator's log. */
  readonly processes: string;

  constructor(pids: readonly number[], waitedMs: number) {
    const count = pids.length === 1 ? "one process" : `${pids.length} processes`;
    super(503, `${count} did not end within ${waitedMs} ms after SIGKILL`);
    this.processes = pids.slice(0, UNENDED_SHOWN_MAX).map(describe).join("; ");
  }
}

/**
 * Ends the processes in a cgroup and removes it with all its descendants, in every hierarchy, except those named in
 * `keep` and their descendants. Throws `Unended` when a process has not ended after `withinMs`.
 */
export async function removeCgroups(
  path: string,
  keep: ReadonlySet<string> = new Set(),
  withinMs = CGROUP_REMOVE_MS,
): Promise<void> {
  const unended = await untilDone(withinMs, () => removalStep(path, keep));
  if (unended !== undefined) throw new ProcessesRemain(unended, withinMs);
}

/** Ends the processes in a cgroup, which stays. Throws `Unended` when one has not ended after `withinMs`. */
export async function endCgroup(path: string, withinMs = CGROUP_REMOVE_MS): Promise<void> {
  let busy: string | undefined;
  let lookedAt = 0;
  const unended = await untilDone(withinMs, async () => {
    // While processes are left in one folder, the other hierarchies, a dozen on v1, are not searched.
    const left = busy === undefined || performance.now() - lookedAt > CGROUP_CHECK_MS ? [] : processesOf(busy);
    for (const pid of left) kill(pid);
    if (left.length > 0) return left;
    lookedAt = performance.now();
    const folders = foldersBelow(path, new Set());
    const running = end(folders);
    busy = folders.flat().find((folder) => processesOf(folder).length > 0);
    return running.length === 0 ? undefined : running;
  });
  if (unended !== undefined) throw new ProcessesRemain(unended, withinMs);
}

/** Ends the processes in all these cgroups at once. Returns those that still have processes after `withinMs`. */
export async function endAll(paths: readonly string[], withinMs = CGROUP_REMOVE_MS): Promise<string[]> {
  let left = [...paths];
  await untilDone(withinMs, async () => {
    left = left.filter((path) => end(foldersBelow(path, new Set())).length > 0);
    return left.length === 0 ? undefined : left;
  });
  return left;
}

/** Repeats a step, with growing delays, until it returns undefined; returns its last result at the deadline. */
async function untilDone<Left>(withinMs: number, step: () => Promise<Left | undefined>): Promise<Left | undefined> {
  const deadline = performance.now() + withinMs;
  for (let attempt = 0; ; attempt++) {
    const left = await step();
    if (left === undefined || performance.now() >= deadline) return left;
    await Bun.sleep(Math.min(CGROUP_REMOVE_RETRY_MIN_MS * 2 ** attempt, CGROUP_REMOVE_RETRY_MAX_MS));
  }
}

/** Returns the remaining processes; undefined when everything is removed. */
async function removalStep(path: string, keep: ReadonlySet<string>): Promise<number[] | undefined> {
  const folders = foldersBelow(path, keep);
  const running = end(folders);
  if (running.length > 0) return running;
  const removed = await Promise.all(folders.map((ofTree) => removeEach(ofTree)));
  // A thread may still be exiting although no process is listed.
  return removed.every(Boolean) ? undefined : [];
}

/** One by one, lowest first: a cgroup with children cannot be removed. */
async function removeEach(folders: readonly string[]): Promise<boolean> {
  for (const folder of folders) {
    try {
      await rmdir(folder);
    } catch (error) {
      if (!existsSync(folder)) continue;
      if (systemCode(error) !== "EBUSY") throw error;
      return false;
    }
  }
  return true;
}

/** For each hierarchy: the cgroup and its descendants, lowest first, without those to keep and their parents. */
function foldersBelow(path: string, keep: ReadonlySet<string>): string[][] {
  return cgroupTrees().map((tree) => {
    const found: string[] = [];
    walk(join(tree, path), keep, found);
    return found;
  });
}

/** False: there is something to keep. */
function walk(folder: string, keep: ReadonlySet<string>, found: string[]): boolean {
  const links = linksOf(folder);
  if (links === 0) return true;
  if (keep.has(basename(folder))) return false;
  let isFree = true;
  // Listing a cgroup with its dozens of files takes many times as long as a stat.
  const below = links === LINKS_WITHOUT_FOLDERS ? [] : foldersIn(folder);
  for (const name of below) if (!walk(join(folder, name), keep, found)) isFree = false;
  if (isFree) found.push(folder);
  return isFree;
}

/** The link count is 2 plus the number of child cgroups; 0: the cgroup does not exist. */
function linksOf(folder: string): number {
  return statSync(folder, { throwIfNoEntry: false })?.nlink ?? 0;
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch (error) {
    // Another process removes it at the same time.
    if (existsSync(folder)) throw error;
    return [];
  }
}

/** Kills before it thaws, so that no process runs another step. Returns those that were there. */
function end(folders: readonly (readonly string[])[]): number[] {
  const all = folders.flat();
  const running = new Set(all.flatMap(processesOf));
  for (const pid of running) kill(pid);
  if (running.size > 0) for (const folder of all) thaw(folder);
  return [...running];
}

/** With cgroup v1, a frozen process does not even die. */
function thaw(folder: string): void {
  const state = join(folder, "freezer.state");
  try {
    if (existsSync(state)) writeFileSync(state, "THAWED");
  } catch (error) {
    // Another process removes it at the same time.
    if (existsSync(folder)) throw error;
  }
}

function processesOf(folder: string): number[] {
  try {
    return readFileSync(join(folder, "cgroup.procs"), "utf8").trim().split("\n").map(Number).filter(Boolean);
  } catch {
    // The cgroup is gone meanwhile, as intended.
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (systemCode(error) !== "ESRCH") throw error;
  }
}

/** Includes the kernel function where the process waits, which tells what keeps it from ending. */
function describe(pid: number): string {
  const read = (name: string) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, "utf8").trim();
    } catch {
      return "";
    }
  };
  const state = /\) (\S)/.exec(read("stat"))?.[1] ?? "?";
  return `${pid} ${JSON.stringify(read("comm"))} ${state} in ${read("wchan") || "?"}`;
}
