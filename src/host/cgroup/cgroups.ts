/** Cgroups of sandboxes, in whichever layout the machine has: v1 (one tree for each controller), v2, or both. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { stderrLog } from "../../work/log.ts";
import { CGROUP_REMOVE_MS, CGROUP_REMOVE_RETRY_MAX_MS, CGROUP_REMOVE_RETRY_MIN_MS } from "../limits.ts";

export const CGROUP_ROOT = "/sys/fs/cgroup";
const V2_MARK = "cgroup.controllers";

export type CgroupLayout = "v1" | "v2" | "hybrid";

export function cgroupLayout(root = CGROUP_ROOT): CgroupLayout {
  if (existsSync(join(root, V2_MARK))) return "v2";
  return existsSync(join(root, "unified", V2_MARK)) ? "hybrid" : "v1";
}

/** Those of v1 that have a name and no controller. */
export function namedTrees(): string[] {
  if (existsSync(join(CGROUP_ROOT, V2_MARK))) return [];
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const named = lines.filter((line) => / - cgroup \S+ (\S+,)?name=/.test(line)).map((line) => line.split(" ")[4] ?? "");
  return [...new Set(named)].filter((point) => point.startsWith(`${CGROUP_ROOT}/`));
}

/** The mounted trees: one on v2, one for each controller on v1. */
export function cgroupTrees(): string[] {
  if (existsSync(join(CGROUP_ROOT, V2_MARK))) return [CGROUP_ROOT];
  const seen = new Set<string>();
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const point = line.split(" ")[4];
    if (point?.startsWith(`${CGROUP_ROOT}/`) && / - cgroup2? /.test(line)) seen.add(point);
  }
  return [...seen];
}

/**
 * Makes a cgroup that only holds others, so that they can be limited. crun does this for what it makes; CRIU takes it
 * for granted. With v1, a new cpuset is empty; with v2, the controllers have to be passed on from level to level.
 */
export function makeParentCgroup(path: string): void {
  const levels = path.split("/").filter(Boolean);
  for (const tree of cgroupTrees()) {
    let folder = tree;
    for (const level of ["", ...levels]) {
      const above = folder;
      folder = join(folder, level);
      mkdirSync(folder, { recursive: true });
      if (existsSync(join(folder, V2_MARK))) passControllersOn(folder);
      else if (level !== "")
        for (const file of ["cpuset.cpus", "cpuset.mems"]) inherit(join(above, file), join(folder, file));
    }
  }
}

function inherit(from: string, to: string): void {
  if (existsSync(to) && readFileSync(to, "utf8").trim() === "") writeFileSync(to, readFileSync(from, "utf8"));
}

/**
 * Those that limit a sandbox. Without one of the first three a restored sandbox would have no limit where it had one.
 */
const NEEDED_CONTROLLERS = ["cpu", "memory", "pids"];
const WANTED_CONTROLLERS = [...NEEDED_CONTROLLERS, "cpuset"];

function passControllersOn(folder: string): void {
  const file = join(folder, "cgroup.subtree_control");
  const words = (path: string) => readFileSync(path, "utf8").trim().split(" ").filter(Boolean);
  // One at a time: some cannot be passed on where processes are, and the others still can.
  for (const controller of words(join(folder, V2_MARK)).filter((name) => WANTED_CONTROLLERS.includes(name))) {
    try {
      writeFileSync(file, `+${controller}`);
    } catch (cause) {
      if (NEEDED_CONTROLLERS.includes(controller)) {
        throw new Fault(
          500,
          `${folder} cannot pass on its controller "${controller}", so sandboxes cannot be limited`,
          { cause },
        );
      }
    }
  }
}

/**
 * Ends what runs in a cgroup and removes it with all below it, in every tree, but for those named in `keep` and what is
 * below them.
 */
export async function removeCgroups(path: string, keep: ReadonlySet<string> = new Set()): Promise<void> {
  for (const tree of cgroupTrees()) await removeTree(join(tree, path), keep);
}

/** The cgroup above all servers goes with the last of them. */
export async function removeEmptyParents(): Promise<void> {
  for (const tree of cgroupTrees()) {
    const parent = join(tree, "sandlot");
    // The kernel refuses while another server's cgroups are below.
    if (existsSync(parent) && foldersIn(parent).length === 0) await rmdir(parent).catch(() => undefined);
  }
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

async function removeTree(folder: string, keep: ReadonlySet<string>): Promise<boolean> {
  if (!existsSync(folder)) return true;
  if (keep.has(basename(folder))) return false;
  let empty = true;
  for (const name of foldersIn(folder)) {
    if (!(await removeTree(join(folder, name), keep))) empty = false;
  }
  return empty && (await endAndRemove(folder));
}

/**
 * A cgroup with processes cannot be removed, so they are ended first; one that is being unmade may not even have a
 * runtime.
 */
async function endAndRemove(folder: string): Promise<boolean> {
  const deadline = performance.now() + CGROUP_REMOVE_MS;
  for (let attempt = 0; performance.now() < deadline; attempt++) {
    try {
      await rmdir(folder);
      return true;
    } catch (error) {
      if (!existsSync(folder)) return true;
      if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    }
    for (const pid of processesOf(folder)) kill(pid);
    letGo(folder);
    await Bun.sleep(Math.min(CGROUP_REMOVE_RETRY_MIN_MS * 2 ** attempt, CGROUP_REMOVE_RETRY_MAX_MS));
  }
  const error = `what was told to end in it has not, for ${CGROUP_REMOVE_MS} ms; it stays until the next start`;
  const processes = processesOf(folder).join(" ");
  stderrLog.write({ level: "error", event: "cgroup could not be removed", folder, processes, error });
  return false;
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
    return readFileSync(join(folder, "cgroup.procs"), "utf8").trim().split("\n").filter(Boolean).map(Number);
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
