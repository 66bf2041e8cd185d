/** Cgroups of sandboxes, in whichever layout the machine has: v1 (one tree for each controller), v2, or both. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";

export const CGROUP_ROOT = "/sys/fs/cgroup";
const V2_MARK = "cgroup.controllers";

export type CgroupLayout = "v1" | "v2" | "hybrid";

let layout: CgroupLayout | undefined;

/** It is the same for the life of a process. */
export function cgroupLayout(): CgroupLayout {
  layout ??= layoutOf(CGROUP_ROOT);
  return layout;
}

export function layoutOf(root: string): CgroupLayout {
  if (existsSync(join(root, V2_MARK))) return "v2";
  return existsSync(join(root, "unified", V2_MARK)) ? "hybrid" : "v1";
}

let named: string[] | undefined;

/** Those of v1 that have a name and no controller. They are the same for the life of a process. */
export function namedTrees(): string[] {
  named ??= mountedNamedTrees();
  return named;
}

function mountedNamedTrees(): string[] {
  if (existsSync(join(CGROUP_ROOT, V2_MARK))) return [];
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const points = lines
    .filter((line) => / - cgroup \S+ (\S+,)?name=/.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return [...new Set(points)].filter((point) => point.startsWith(`${CGROUP_ROOT}/`));
}

let trees: string[] | undefined;

/** The mounted trees: one on v2, one for each controller on v1. They are the same for the life of a process. */
export function cgroupTrees(): string[] {
  trees ??= mountedTrees();
  return trees;
}

function mountedTrees(): string[] {
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
const WANTED_CONTROLLERS = [...NEEDED_CONTROLLERS, "cpuset", "io"];

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
