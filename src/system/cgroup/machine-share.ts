/**
 * What sandboxes leave to the machine. All their cgroups are below one, which may take the machine's memory but for a
 * part: when they have taken it, one of them loses a process. Without that the kernel would look for one on the whole
 * machine, and the server could be it.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { described, stderrLog } from "../../base/log.ts";
import { CGROUP_ROOT } from "./cgroups.ts";

/** Of the machine's memory, this part is not for sandboxes, and at least so much. */
const MACHINE_MEMORY_PART = 1 / 16;
const MACHINE_MEMORY_MIN_BYTES = 512 * 1024 * 1024;
/**
 * Of the machine's memory, what may wait in TCP and UDP sockets of all sandboxes together, where cgroups count it
 * apart: the kernel begins to hold back the whole machine at a sixteenth.
 */
const SOCKET_MEMORY_PART = 3 / 64;

/** Of a machine with so much memory. A small one is shared half and half. */
export function memoryForSandboxes(totalBytes: number): number {
  const kept = Math.max(MACHINE_MEMORY_MIN_BYTES, totalBytes * MACHINE_MEMORY_PART);
  return Math.floor(totalBytes - Math.min(kept, totalBytes / 2));
}

/** Limits the cgroup above those of all servers: the first name in the path of one. */
export function leaveToMachine(cgroup: string): void {
  leaveMemoryToMachine(cgroup);
  leaveSocketMemoryToMachine(cgroup);
}

export function leaveMemoryToMachine(cgroup: string, bytes = memoryForSandboxes(totalmem()), root = CGROUP_ROOT): void {
  const top = cgroup.split("/").find(Boolean) ?? "";
  limit([join(root, "memory", top, "memory.limit_in_bytes"), join(root, top, "memory.max")], bytes);
}

/** What waits in sockets; with cgroup v2 it is a part of the memory. */
export function leaveSocketMemoryToMachine(
  cgroup: string,
  bytes = Math.floor(totalmem() * SOCKET_MEMORY_PART),
  root = CGROUP_ROOT,
): void {
  const top = cgroup.split("/").find(Boolean) ?? "";
  limit([join(root, "memory", top, "memory.kmem.tcp.limit_in_bytes")], bytes);
}

/** Whichever of these files there is. */
function limit(files: readonly string[], bytes: number): void {
  const file = files.find((path) => existsSync(path));
  if (file === undefined) return;
  try {
    const now = Number(readFileSync(file, "utf8"));
    // Somebody else may have set it lower. "max" is no number.
    if (!(now <= bytes)) writeFileSync(file, String(bytes));
  } catch (error) {
    // Older sandboxes have taken more than that already.
    stderrLog.write({ level: "warn", event: "sandboxes are not limited together", file, error: described(error) });
  }
}
