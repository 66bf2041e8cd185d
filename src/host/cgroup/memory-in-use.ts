/** How much memory a sandbox takes: as its cgroup counts it, and as its processes would have it each for itself. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CGROUP_ROOT } from "./cgroups.ts";
import { freezerOf, processesBelow } from "./freezer.ts";

/** Bytes; 0 for one that is gone. */
export function memoryInUse(cgroup: string): number {
  for (const file of [join("memory", cgroup, "memory.usage_in_bytes"), join(cgroup, "memory.current")]) {
    const path = join(CGROUP_ROOT, file);
    if (existsSync(path)) return Number(readFileSync(path, "utf8"));
  }
  return 0;
}

/** Bytes. What processes share since a fork counts for each of them; no further than to `enough`. */
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
    // It has ended.
    return 0;
  }
}
