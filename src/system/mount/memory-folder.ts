/**
 * Keeps a server's run folder in memory even where /run is on a disk, as in many containers. Nothing in it is needed
 * after a reboot. On a disk, each of the dozens of small files of a boot would cost far more: before ext4 allocates an
 * inode, it checks all that were freed in the last seconds, and sandboxes that end free many.
 */
import { mkdirSync, readdirSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { MS_NODEV, MS_NOSUID, mount } from "../syscalls.ts";

/** Size limit of the run folder's own mount: the usual limit of /run. Only used pages take memory. */
const RUN_FOLDER_MEMORY = "20%";

const TMPFS = 0x01021994;
const RAMFS = 0x858458f6;
/** Inode numbers of the initial mount namespace, in old and new kernels. */
const FIRST_NAMESPACES = [0xf0000000, 0xf0000001, 0xeffffff8];

/** Mounts a tmpfs, unless the folder has content or other processes on this machine would not see the mount. */
export function keepInMemory(folder: string, isSeen = isSeenByAll()): void {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  if (isInMemory(folder) || isInMemory(dirname(folder)) || readdirSync(folder).length > 0 || !isSeen) return;
  mount("tmpfs", folder, "tmpfs", MS_NODEV | MS_NOSUID, `mode=711,size=${RUN_FOLDER_MEMORY}`);
}

export function isInMemory(folder: string): boolean {
  return [TMPFS, RAMFS].includes(statfsSync(folder).type);
}

/** Whether this process sees the mounts of the machine's, or the container's, first process. */
function isSeenByAll(): boolean {
  const own = namespaceOf("self");
  return own !== undefined && (FIRST_NAMESPACES.includes(own) || own === namespaceOf("1"));
}

function namespaceOf(process: string): number | undefined {
  try {
    return statSync(`/proc/${process}/ns/mnt`).ino;
  } catch {
    // In some environments root may not examine the first process.
    return undefined;
  }
}
