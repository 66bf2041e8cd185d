/** Memory that sandboxes can still get: of the machine, or below the limits of the cgroups above them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CGROUP_ROOT } from "./cgroups.ts";

export interface MemoryLeft {
  totalBytes: number;
  availableBytes: number;
}

/** Where the values are read; tests use their own folders. */
const SYSTEM = { cgroup: CGROUP_ROOT, meminfo: "/proc/meminfo" };

/** The smallest of the machine's memory and the limits of the cgroups from the root down to this one. */
export function memoryLeft(cgroup: string, system = SYSTEM): MemoryLeft {
  const meminfo = readFileSync(system.meminfo, "utf8");
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? 0) * 1024;
  const left = { totalBytes: kib("MemTotal"), availableBytes: kib("MemAvailable") };
  const names = cgroup.split("/").filter(Boolean);
  for (let depth = 0; depth <= names.length; depth++) {
    const path = names.slice(0, depth).join("/");
    const limited = limitOf(system.cgroup, path);
    if (limited === undefined || limited.totalBytes > left.totalBytes) continue;
    left.totalBytes = limited.totalBytes;
    left.availableBytes = Math.min(left.availableBytes, limited.availableBytes);
  }
  return left;
}

function limitOf(root: string, path: string): MemoryLeft | undefined {
  const isV1 = existsSync(join(root, "memory"));
  const folder = isV1 ? join(root, "memory", path) : join(root, path);
  const limitFile = join(folder, isV1 ? "memory.limit_in_bytes" : "memory.max");
  if (!existsSync(limitFile)) return undefined;
  // "max" is not a number: there is no limit.
  const totalBytes = Number(readFileSync(limitFile, "utf8"));
  if (!Number.isFinite(totalBytes)) return undefined;
  const used = Number(readFileSync(join(folder, isV1 ? "memory.usage_in_bytes" : "memory.current"), "utf8"));
  const stat = readFileSync(join(folder, "memory.stat"), "utf8");
  const counter = (name: string) =>
    Number(new RegExp(`^${isV1 ? "total_" : ""}${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
  // Page cache, which the kernel reclaims on demand.
  const files = counter("inactive_file") + counter("active_file");
  return { totalBytes, availableBytes: Math.max(0, totalBytes - used + files) };
}
