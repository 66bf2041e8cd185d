/**
 * Ends what runs in cgroups and removes them, in every tree at once and with one deadline: the kernel does not let go
 * of a process before it has undone all that the process had, and a sandbox may have had much, or wait for a disk.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { CGROUP_REMOVE_MS } from "../limits.ts";
import { cgroupTrees } from "./cgroups.ts";

const UNENDED_SHOWN_MAX = 20;
/** What was told to end is gone within a few milliseconds; the pauses grow from the first to the second. */
const CGROUP_REMOVE_RETRY_MIN_MS = 1;
const CGROUP_REMOVE_RETRY_MAX_MS = 20;
/** All trees are looked through at least so often for what runs on in a cgroup that is ended. */
const CGROUP_LOOK_EVERY_MS = 100;

const LINKS_WITHOUT_FOLDERS = 2;

/** Something in a cgroup was told to end, and runs on. Nothing of it was given to anybody else. */
export class Unended extends Fault {
  /** What runs on, for the operator's log. */
  readonly processes: string;

  constructor(pids: readonly number[], waitedMs: number) {
    const count = pids.length === 1 ? "one process was" : `${pids.length} processes were`;
    super(503, `${count} told to end and did not within ${waitedMs} ms`);
    this.processes = pids.slice(0, UNENDED_SHOWN_MAX).map(describe).join("; ");
  }
}

/**
 * Ends what runs in a cgroup and removes it with all below it, in every tree, but for those named in `keep` and what is
 * below them. Throws `Unended` when something has not ended after `withinMs`; it has been told to.
 */
export async function removeCgroups(
  path: string,
  keep: ReadonlySet<string> = new Set(),
  withinMs = CGROUP_REMOVE_MS,
): Promise<void> {
  const unended = await untilDone(withinMs, () => removalStep(path, keep));
  if (unended !== undefined) throw new Unended(unended, withinMs);
}

/** Ends what runs in a cgroup, which stays. Throws `Unended` when something has not ended after `withinMs`. */
export async function endCgroup(path: string, withinMs = CGROUP_REMOVE_MS): Promise<void> {
  let busy: string | undefined;
  let lookedAt = 0;
  const unended = await untilDone(withinMs, async () => {
    // While something is left in one of them, the others need not be looked at, which on v1 are a dozen.
    const left = busy === undefined || performance.now() - lookedAt > CGROUP_LOOK_EVERY_MS ? [] : processesOf(busy);
    for (const pid of left) kill(pid);
    if (left.length > 0) return left;
    lookedAt = performance.now();
    const folders = foldersBelow(path, new Set());
    const running = end(folders);
    busy = folders.flat().find((folder) => processesOf(folder).length > 0);
    return running.length === 0 ? undefined : running;
  });
  if (unended !== undefined) throw new Unended(unended, withinMs);
}

/** Ends what runs in these cgroups, in all of them at once. Answers those in which something does after `withinMs`. */
export async function endAll(paths: readonly string[], withinMs = CGROUP_REMOVE_MS): Promise<string[]> {
  let left = [...paths];
  await untilDone(withinMs, async () => {
    left = left.filter((path) => end(foldersBelow(path, new Set())).length > 0);
    return left.length === 0 ? undefined : left;
  });
  return left;
}

/** Repeats a step, with growing pauses, until it answers undefined; answers what it said when the time was over. */
async function untilDone<Left>(withinMs: number, step: () => Promise<Left | undefined>): Promise<Left | undefined> {
  const deadline = performance.now() + withinMs;
  for (let attempt = 0; ; attempt++) {
    const left = await step();
    if (left === undefined || performance.now() >= deadline) return left;
    await Bun.sleep(Math.min(CGROUP_REMOVE_RETRY_MIN_MS * 2 ** attempt, CGROUP_REMOVE_RETRY_MAX_MS));
  }
}

/** Answers what still runs; undefined when all is removed. */
async function removalStep(path: string, keep: ReadonlySet<string>): Promise<number[] | undefined> {
  const folders = foldersBelow(path, keep);
  const running = end(folders);
  if (running.length > 0) return running;
  const removed = await Promise.all(folders.map((ofTree) => removeEach(ofTree)));
  // Where nothing is listed, a thread may still be on its way out.
  return removed.every(Boolean) ? undefined : [];
}

/** From below, one by one: one that holds another cannot go. */
async function removeEach(folders: readonly string[]): Promise<boolean> {
  for (const folder of folders) {
    try {
      await rmdir(folder);
    } catch (error) {
      if (!existsSync(folder)) continue;
      if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
      return false;
    }
  }
  return true;
}

/** For each tree: the cgroup and those below it, the lowest first; without those to keep and what holds them. */
function foldersBelow(path: string, keep: ReadonlySet<string>): string[][] {
  return cgroupTrees().map((tree) => {
    const found: string[] = [];
    walk(join(tree, path), keep, found);
    return found;
  });
}

/** False: something to keep is there. */
function walk(folder: string, keep: ReadonlySet<string>, found: string[]): boolean {
  const links = linksOf(folder);
  if (links === 0) return true;
  if (keep.has(basename(folder))) return false;
  let isFree = true;
  // To list one, which has dozens of files, takes many times what it takes to look at it.
  const below = links === LINKS_WITHOUT_FOLDERS ? [] : foldersIn(folder);
  for (const name of below) if (!walk(join(folder, name), keep, found)) isFree = false;
  if (isFree) found.push(folder);
  return isFree;
}

/** The kernel counts the name of a cgroup, its own ".", and the ".." of each below it; 0: there is none. */
function linksOf(folder: string): number {
  return statSync(folder, { throwIfNoEntry: false })?.nlink ?? 0;
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch (error) {
    // Somebody else removes it at the same time.
    if (existsSync(folder)) throw error;
    return [];
  }
}

/**
 * Tells everything in these to end, and only then lets go of what stands still, so that none of it runs another step.
 * Answers what was there.
 */
function end(folders: readonly (readonly string[])[]): number[] {
  const all = folders.flat();
  const running = new Set(all.flatMap(processesOf));
  for (const pid of running) kill(pid);
  if (running.size > 0) for (const folder of all) letGo(folder);
  return [...running];
}

/** With cgroup v1, what is frozen does not even end. */
function letGo(folder: string): void {
  const state = join(folder, "freezer.state");
  try {
    if (existsSync(state)) writeFileSync(state, "THAWED");
  } catch (error) {
    // Somebody else removes it at the same time.
    if (existsSync(folder)) throw error;
  }
}

function processesOf(folder: string): number[] {
  try {
    return readFileSync(join(folder, "cgroup.procs"), "utf8").trim().split("\n").map(Number).filter(Boolean);
  } catch {
    // Gone in the meantime, which is what is wanted.
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** With the place in the kernel where it waits: that tells what has to happen for it to end. */
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
