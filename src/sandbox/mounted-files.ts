/** Files in a sandbox's own folder that are mounted into it: inherited from its checkpoint, or made anew. */
import { chownSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { randomHex } from "../base/random-hex.ts";
import { meminfoText } from "../contract/runtime/meminfo.ts";
import type { IdRange } from "../system/id-range.ts";
import type { MountJob } from "../system/mount/mount-job.ts";
import { OWN_FOLDER } from "./checkpoint/manifest.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

export const BOOT_ID_FILE = "boot-id";
export const CONTROL_SECRET_NAME = "control-secret";
const SECRET_BYTES = 32;
/**
 * Shown as /proc/meminfo; the kernel's own shows the whole machine. The guest keeps it current, so root inside can
 * write it, too. It is alone on a tmpfs without a size limit: written pages are charged to the sandbox's memory and
 * freed with its last process, and `df` inside omits a filesystem without a size.
 */
const MEMINFO_FILE = "memory/meminfo";

/** The tmpfs mount for the file, new at each start and restore. It leaves the host's view together with the disk. */
export function meminfoMount(folder: string): MountJob {
  const target = dirname(join(folder, MEMINFO_FILE));
  mkdirSync(target, { recursive: true, mode: 0o711 });
  return { kind: "tmpfs", target, options: "size=0,mode=711" };
}

/** Writes the file; the tmpfs must be mounted. */
export function writeMeminfoFile(folder: string, memoryMB: number, ids: IdRange): string {
  const path = join(folder, MEMINFO_FILE);
  writeFileSync(path, meminfoText({ total: memoryMB * 1024 ** 2, used: 0, cache: 0, shared: 0 }), { mode: 0o644 });
  chownSync(path, ids.first, ids.first);
  return path;
}

/** Mounted over the kernel's boot id. */
export function makeBootIdFile(folder: string): string {
  const path = join(folder, BOOT_ID_FILE);
  writeFileSync(path, `${crypto.randomUUID()}\n`, { mode: 0o444 });
  return path;
}

/** The secret for the guest's control channel. The sandbox's settings may follow on the next line of the file. */
export function makeControlSecret(folder: string, ids: IdRange): { secret: string; path: string } {
  const path = join(folder, CONTROL_SECRET_NAME);
  const secret = randomHex(SECRET_BYTES);
  writeFileSync(path, secret, { mode: 0o400 });
  chownSync(path, ids.first, ids.first);
  return { secret, path };
}

/** Files that a checkpoint stores. The others are made anew for each sandbox started from it. */
export function keptFiles({ mounts }: Pick<SandboxRecord, "mounts">): string[] {
  return mounts
    .filter(({ outside }) => outside.startsWith(`${OWN_FOLDER}/`))
    .map(({ outside }) => outside.slice(OWN_FOLDER.length + 1))
    .filter((name) => name !== MEMINFO_FILE && name !== CONTROL_SECRET_NAME);
}

/** Files that a sandbox takes over from a checkpoint. A copy is a different machine, so it gets a new boot id. */
export function inheritedFiles(record: Pick<SandboxRecord, "mounts">, copy: boolean): string[] {
  return keptFiles(record).filter((name) => !copy || name !== BOOT_ID_FILE);
}
