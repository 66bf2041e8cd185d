/**
 * Memory limits of the edge processes. Each has its own cgroup, outside the common limit of sandboxes. The edge itself
 * bounds what clients can make it hold. If that ever fails, the kernel kills one edge process, which restarts at once,
 * and nothing else on the machine.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../base/log.ts";
import { cgroupTrees } from "./cgroups.ts";
import { EDGE_TOP, makeParentCgroup } from "./parents.ts";
import { removeCgroups } from "./removal.ts";

/** Limit of one edge process, or this part of the memory on a small machine. */
const EDGE_PROCESS_MEMORY_MAX_BYTES = 1024 ** 3;
const EDGE_PROCESS_MEMORY_PART = 0.25;

const LIMIT_FILES = ["memory.max", "memory.limit_in_bytes"];

export function cgroupOfEdge(tag: string): string {
  return `/${EDGE_TOP}/${tag}`;
}

/** Puts an edge process, by its index, into its cgroup. If the limit cannot be set, the process runs without one. */
export function limitEdgeMemory(tag: string, process: number, pid: number): void {
  const own = join(cgroupOfEdge(tag), String(process));
  const bytes = Math.floor(Math.min(EDGE_PROCESS_MEMORY_MAX_BYTES, totalmem() * EDGE_PROCESS_MEMORY_PART));
  try {
    makeParentCgroup(cgroupOfEdge(tag));
    for (const tree of cgroupTrees()) {
      const folder = join(tree, own);
      mkdirSync(folder, { recursive: true });
      const limit = LIMIT_FILES.map((name) => join(folder, name)).find((file) => existsSync(file));
      if (limit === undefined) continue;
      writeFileSync(limit, String(bytes));
      writeFileSync(join(folder, "cgroup.procs"), String(pid));
    }
  } catch (error) {
    stderrLog.write({ level: "warn", event: "the edge's memory is not limited", error: described(error) });
  }
}

export async function removeEdgeCgroups(tag: string): Promise<void> {
  await removeCgroups(cgroupOfEdge(tag));
}
