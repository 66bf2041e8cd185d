/**
 * Resource limits of a restored sandbox. With cgroup v1, CRIU stores and restores them. With v2 it stores none, so the
 * host makes the cgroup first, and CRIU leaves an existing cgroup unchanged.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIB } from "../../../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../../../contract/runtime/limits.ts";
import { CGROUP_ROOT, layoutOf } from "../../../system/cgroup/cgroups.ts";
import { CPU_PERIOD_US } from "../guest-process.ts";
import type { SandboxSize } from "../runtime.ts";

/** With cgroup v2: factor on the sandbox's memory and process limits during the restore. */
const RESTORE_ROOM = 2;

/** Missing on a kernel without swap. */
const SWAP_FILE = "memory.swap.max";

/** The parent cgroups must exist. The higher limits leave room for CRIU's own memory inside each process. */
export function makeCgroupForRestore(cgroup: string, size: SandboxSize, root = CGROUP_ROOT): void {
  if (layoutOf(root) !== "v2") return;
  const folder = join(root, cgroup);
  mkdirSync(folder, { recursive: true });
  if (size.processors !== undefined) writeFileSync(join(folder, "cpuset.cpus"), size.processors);
  writeFileSync(join(folder, "cpu.max"), `${size.cpuCount * CPU_PERIOD_US} ${CPU_PERIOD_US}`);
  if (existsSync(join(folder, SWAP_FILE))) writeFileSync(join(folder, SWAP_FILE), "0");
  limit(folder, size, RESTORE_ROOM);
}

/** Sets the template's limits, once CRIU is done. */
export function limitRestored(cgroup: string, size: SandboxSize, root = CGROUP_ROOT): void {
  if (layoutOf(root) === "v2") limit(join(root, cgroup), size, 1);
}

function limit(folder: string, { memoryMB }: SandboxSize, room: number): void {
  writeFileSync(join(folder, "memory.max"), String(memoryMB * MIB * room));
  writeFileSync(join(folder, "pids.max"), String(SANDBOX_PIDS_MAX * room));
}
