/**
 * The limits of a sandbox that CRIU makes. With cgroup v1, CRIU stores them and sets them again. With v2 it stores none
 * of them: there the host makes the cgroup before CRIU does, and CRIU leaves one that exists as it is.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SANDBOX_PIDS_MAX } from "../../../contract/runtime/limits.ts";
import { CGROUP_ROOT, layoutOf } from "../../../system/cgroup/cgroups.ts";
import { CPU_PERIOD_US } from "../guest-process.ts";
import type { SandboxSize } from "../runtime.ts";

/** With cgroup v2: so many times its memory and its processes a sandbox may have until it is restored. */
const RESTORE_ROOM = 2;

const MIB = 1024 * 1024;
/** Missing on a kernel without swap. */
const SWAP_FILE = "memory.swap.max";

/**
 * The cgroups above are there. What CRIU itself takes in each process while it works there has room beside the
 * sandbox's own.
 */
export function makeCgroupForRestore(cgroup: string, size: SandboxSize, root = CGROUP_ROOT): void {
  if (layoutOf(root) !== "v2") return;
  const folder = join(root, cgroup);
  mkdirSync(folder, { recursive: true });
  if (size.processors !== undefined) writeFileSync(join(folder, "cpuset.cpus"), size.processors);
  writeFileSync(join(folder, "cpu.max"), `${size.cpuCount * CPU_PERIOD_US} ${CPU_PERIOD_US}`);
  if (existsSync(join(folder, SWAP_FILE))) writeFileSync(join(folder, SWAP_FILE), "0");
  limit(folder, size, RESTORE_ROOM);
}

/** CRIU is done: from here on it has what its template gives it and no more. */
export function limitRestored(cgroup: string, size: SandboxSize, root = CGROUP_ROOT): void {
  if (layoutOf(root) === "v2") limit(join(root, cgroup), size, 1);
}

function limit(folder: string, { memoryMB }: SandboxSize, room: number): void {
  writeFileSync(join(folder, "memory.max"), String(memoryMB * MIB * room));
  writeFileSync(join(folder, "pids.max"), String(SANDBOX_PIDS_MAX * room));
}
