/**
 * The run folder of a server, in memory also where /run is not, as in many containers. Nothing in it is of use after a
 * reboot. On a disk, each of the dozens of small files of a boot would cost far more: ext4 looks at all that was freed
 * in the last seconds before it gives away the place of a new one, and sandboxes that end free a lot.
 */
import { mkdirSync, readdirSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { MS_NODEV, MS_NOSUID, mount } from "../syscalls.ts";

/** Of the run folder where it has a mount of its own: what /run has on most machines. Only what is used is taken. */
const RUN_FOLDER_MEMORY = "20%";

const TMPFS = 0x01021994;
const RAMFS = 0x858458f6;
/** The numbers that kernels, old and new, give to the mount namespace that they begin with. */
const FIRST_NAMESPACES = [0xf0000000, 0xf0000001, 0xeffffff8];

/** Left as it is: one that has something in it, and any where others on this machine would not see the mount. */
export function keepInMemory(folder: string, isSeen = isSeenByAll()): void {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  if (isInMemory(folder) || isInMemory(dirname(folder)) || readdirSync(folder).length > 0 || !isSeen) return;
  mount("tmpfs", folder, "tmpfs", MS_NODEV | MS_NOSUID, `mode=711,size=${RUN_FOLDER_MEMORY}`);
}

export function isInMemory(folder: string): boolean {
  return [TMPFS, RAMFS].includes(statfsSync(folder).type);
}

/** Whether this process sees the mounts that the machine's, or the container's, first process sees. */
function isSeenByAll(): boolean {
  const own = namespaceOf("self");
  return own !== undefined && (FIRST_NAMESPACES.includes(own) || own === namespaceOf("1"));
}

function namespaceOf(process: string): number | undefined {
  try {
    return statSync(`/proc/${process}/ns/mnt`).ino;
  } catch {
    // Not everywhere root may look at the first process.
    return undefined;
  }
}
