/**
 * The file that a sandbox sees as /proc/meminfo; the kernel's own shows the whole machine. The guest keeps it current,
 * so root inside can write it, too. It is alone on a tmpfs without a size limit: written pages are charged to the
 * sandbox's memory and freed with its last process, and `df` inside omits a filesystem without a size.
 */
import { chownSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { meminfoText } from "../contract/runtime/meminfo.ts";
import type { IdRange } from "../system/id-range.ts";
import type { MountJob } from "../system/mount/mount-job.ts";

const MIB = 1024 * 1024;

/** Relative to the sandbox's folder. */
export const MEMINFO_FILE = "memory/meminfo";

/** The tmpfs mount for the file, new at each start and restore. It leaves the host's view together with the disk. */
export function meminfoMount(sandboxFolder: string): MountJob {
  const target = dirname(join(sandboxFolder, MEMINFO_FILE));
  mkdirSync(target, { recursive: true, mode: 0o711 });
  return { kind: "tmpfs", target, options: "size=0,mode=711" };
}

/** Writes the file; the tmpfs must be mounted. */
export function writeMeminfoFile(sandboxFolder: string, memoryMB: number, ids: IdRange): string {
  const path = join(sandboxFolder, MEMINFO_FILE);
  writeFileSync(path, meminfoText({ total: memoryMB * MIB, used: 0, cache: 0, shared: 0 }), { mode: 0o644 });
  chownSync(path, ids.first, ids.first);
  return path;
}
