/** Memory use of a sandbox: as its cgroup counts it, and as the sum over its processes. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CGROUP_ROOT } from "./cgroups.ts";
import { freezerOf, processesBelow } from "./freezer.ts";

/** Memory in bytes; 0 for a cgroup that is gone. */
export function memoryInUse(cgroup: string): number {
  for (const file of [join("memory", cgroup, "memory.usage_in_bytes"), join(cgroup, "memory.current")]) {
    const path = join(CGROUP_ROOT, file);
    if (existsSync(path)) return Number(readFileSync(path, "utf8"));
  }
  return 0;
}

/**
 * The file to write in order to reclaim memory that a cgroup holds for no process. Undefined when it has no page cache
 * or the kernel has no such file (cgroup v2 has it since Linux 5.19).
 */
export function reclaimFileOf(cgroup: string): { file: string; text: string } | undefined {
  const [v1, v2] = [join(CGROUP_ROOT, "memory", cgroup), join(CGROUP_ROOT, cgroup)];
  if (existsSync(join(v1, "memory.force_empty"))) {
    return fileBytes(v1, "total_cache") === 0 ? undefined : { file: join(v1, "memory.force_empty"), text: "0" };
  }
  if (!existsSync(join(v2, "memory.reclaim"))) return undefined;
  const bytes = fileBytes(v2, "file");
  return bytes === 0 ? undefined : { file: join(v2, "memory.reclaim"), text: String(memoryInUse(cgroup)) };
}

function fileBytes(folder: string, name: string): number {
  const stat = readFileSync(join(folder, "memory.stat"), "utf8");
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
}

/** In bytes. Pages shared since a fork count for each process. Stops counting above `enough`. */
export async function memoryOfEach(cgroup: string, enough: number): Promise<number> {
  let bytes = 0;
  for (const pid of await processesBelow(freezerOf(cgroup))) {
    bytes += anonymousBytes(pid);
    if (bytes > enough) break;
  }
  return bytes;
}

function anonymousBytes(pid: number): number {
  try {
    return Number(/^RssAnon:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    // The process has ended.
    return 0;
  }
}
