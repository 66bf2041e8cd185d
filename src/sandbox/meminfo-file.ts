/**
 * The file that a sandbox sees as /proc/meminfo: the kernel's own tells of the whole machine. The guest keeps it true,
 * so root inside may write it, too. It is alone on a filesystem in memory without a limit of its own: what is written
 * is charged to the sandbox that writes, like all its memory, goes with its last process, and `df` inside leaves out
 * what has no size.
 */
import { chownSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { meminfoText } from "../contract/runtime/meminfo.ts";
import type { IdRange } from "../system/id-range.ts";
import type { MountJob } from "../system/mount/mount-job.ts";

const MIB = 1024 * 1024;

/** Below the folder of the sandbox. */
export const MEMINFO_FILE = "memory/meminfo";

/** What is to be mounted for it, anew for each start and each restore; it leaves the host's view with the disk. */
export function meminfoMount(sandboxFolder: string): MountJob {
  const target = dirname(join(sandboxFolder, MEMINFO_FILE));
  mkdirSync(target, { recursive: true, mode: 0o711 });
  return { kind: "tmpfs", target, options: "size=0,mode=711" };
}

/** Once that is mounted. */
export function writeMeminfoFile(sandboxFolder: string, memoryMB: number, ids: IdRange): string {
  const path = join(sandboxFolder, MEMINFO_FILE);
  writeFileSync(path, meminfoText({ total: memoryMB * MIB, used: 0, cache: 0, shared: 0 }), { mode: 0o644 });
  chownSync(path, ids.first, ids.first);
  return path;
}
