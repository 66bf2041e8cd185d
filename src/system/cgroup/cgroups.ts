/** Cgroups of sandboxes, in any layout: v1 (one hierarchy per controller), v2, or hybrid. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const CGROUP_ROOT = "/sys/fs/cgroup";
export const V2_MARK = "cgroup.controllers";

export type CgroupLayout = "v1" | "v2" | "hybrid";

/** Constant for the life of a process. */
export const cgroupLayout = once(() => layoutOf(CGROUP_ROOT));

export function layoutOf(root: string): CgroupLayout {
  if (existsSync(join(root, V2_MARK))) return "v2";
  return existsSync(join(root, "unified", V2_MARK)) ? "hybrid" : "v1";
}

/** The v1 hierarchies that have a name and no controller. Constant for the life of a process. */
export const namedTrees = once((): string[] => {
  if (existsSync(join(CGROUP_ROOT, V2_MARK))) return [];
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const points = lines
    .filter((line) => / - cgroup \S+ (\S+,)?name=/.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return [...new Set(points)].filter((point) => point.startsWith(`${CGROUP_ROOT}/`));
});

/** The mounted hierarchies: one on v2, one per controller on v1. Constant for the life of a process. */
export const cgroupTrees = once((): string[] => {
  if (existsSync(join(CGROUP_ROOT, V2_MARK))) return [CGROUP_ROOT];
  const seen = new Set<string>();
  for (const line of readFileSync("/proc/self/mountinfo", "utf8").split("\n")) {
    const point = line.split(" ")[4];
    if (point?.startsWith(`${CGROUP_ROOT}/`) && / - cgroup2? /.test(line)) seen.add(point);
  }
  return [...seen];
});

/** Changes when a process in the cgroup uses CPU time. Missing without a CPU accounting controller. */
export function processorTimeFile(cgroup: string): string {
  if (cgroupLayout() === "v2") return join(CGROUP_ROOT, cgroup, "cpu.stat");
  const tree = cgroupTrees().find((path) => /\bcpuacct\b/.test(path)) ?? CGROUP_ROOT;
  return join(tree, cgroup, "cpuacct.usage");
}

function once<Value>(find: () => Value): () => Value {
  let known: Value | undefined;
  return () => (known ??= find());
}
