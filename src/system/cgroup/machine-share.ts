/**
 * Reserves memory for the machine. All sandbox cgroups are below one cgroup, whose limit leaves a part of the memory to
 * the machine. When sandboxes reach it, one of them loses a process. Without it, the kernel would choose a victim on
 * the whole machine, and that could be the server.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../base/log.ts";
import { CGROUP_ROOT } from "./cgroups.ts";

/** The part of the machine's memory that sandboxes do not get, and its minimum. */
const MACHINE_MEMORY_PART = 1 / 16;
const MACHINE_MEMORY_MIN_BYTES = 512 * 1024 * 1024;
/**
 * Maximum TCP and UDP buffers of all sandboxes together, as a part of the machine's memory, where cgroups count them
 * separately. The kernel starts to throttle the whole machine at a sixteenth.
 */
const SOCKET_MEMORY_PART = 3 / 64;

/** The memory for sandboxes on a machine with `totalBytes`. A small machine is split in half. */
export function memoryForSandboxes(totalBytes: number): number {
  const kept = Math.max(MACHINE_MEMORY_MIN_BYTES, totalBytes * MACHINE_MEMORY_PART);
  return Math.floor(totalBytes - Math.min(kept, totalBytes / 2));
}

/** Limits the common parent cgroup of all servers: the first name in the path. */
export function reserveForMachine(cgroup: string): void {
  reserveMemoryForMachine(cgroup);
  reserveSocketMemoryForMachine(cgroup);
}

export function reserveMemoryForMachine(
  cgroup: string,
  bytes = memoryForSandboxes(totalmem()),
  root = CGROUP_ROOT,
): void {
  const top = cgroup.split("/").find(Boolean) ?? "";
  limit([join(root, "memory", top, "memory.limit_in_bytes"), join(root, top, "memory.max")], bytes);
}

/** Limits socket buffers; with cgroup v2 they are part of the memory limit. */
export function reserveSocketMemoryForMachine(
  cgroup: string,
  bytes = Math.floor(totalmem() * SOCKET_MEMORY_PART),
  root = CGROUP_ROOT,
): void {
  const top = cgroup.split("/").find(Boolean) ?? "";
  limit([join(root, "memory", top, "memory.kmem.tcp.limit_in_bytes")], bytes);
}

/** Writes the limit to the first of these files that exists. */
function limit(files: readonly string[], bytes: number): void {
  const file = files.find((path) => existsSync(path));
  if (file === undefined) return;
  try {
    const now = Number(readFileSync(file, "utf8"));
    // Keeps a lower limit that the operator has set. "max" is not a number.
    if (!(now <= bytes)) writeFileSync(file, String(bytes));
  } catch (error) {
    // Running sandboxes already use more than the limit.
    stderrLog.write({ level: "warn", event: "the memory of sandboxes is not limited", file, error: described(error) });
  }
}
