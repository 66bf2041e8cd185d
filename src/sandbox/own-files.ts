/**
 * Files of a sandbox's own folder that it sees inside, beside its memory: whoever makes a sandbox from a checkpoint
 * decides which of them it has in common with the one that was written.
 */
import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { IdRange } from "../system/id-range.ts";
import { OWN_FOLDER } from "./checkpoint/manifest.ts";
import { MEMINFO_FILE } from "./meminfo-file.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

export const BOOT_ID_FILE = "boot-id";
export const CONTROL_SECRET_FILE = "control-secret";
const SECRET_BYTES = 32;

/** Shown as the kernel's. */
export function makeBootIdFile(folder: string): string {
  const path = join(folder, BOOT_ID_FILE);
  writeFileSync(path, `${crypto.randomUUID()}\n`, { mode: 0o444 });
  return path;
}

/** Opens the guest's control channel from now on, and nothing else does. Its settings may follow in the next line. */
export function makeControlSecret(folder: string, ids: IdRange): { secret: string; path: string } {
  const path = join(folder, CONTROL_SECRET_FILE);
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES))).toString("hex");
  writeFileSync(path, secret, { mode: 0o400 });
  chownSync(path, ids.first, ids.first);
  return { secret, path };
}

/** Those that a checkpoint keeps. The others are made anew whenever a sandbox is made from it. */
export function keptFiles(record: Pick<SandboxRecord, "mounts">): string[] {
  return mountedFiles(record).filter((name) => name !== MEMINFO_FILE && name !== CONTROL_SECRET_FILE);
}

/** Those that a sandbox takes over from a checkpoint. A copy is another boot of another machine. */
export function inheritedFiles(record: Pick<SandboxRecord, "mounts">, copy: boolean): string[] {
  return keptFiles(record).filter((name) => !copy || name !== BOOT_ID_FILE);
}

/** False for a guest of an earlier version, which has its secret in its memory for good. */
export function readsItsSecret(record: Pick<SandboxRecord, "mounts">): boolean {
  return mountedFiles(record).includes(CONTROL_SECRET_FILE);
}

function mountedFiles(record: Pick<SandboxRecord, "mounts">): string[] {
  return record.mounts
    .filter(({ outside }) => outside.startsWith(`${OWN_FOLDER}/`))
    .map(({ outside }) => outside.slice(OWN_FOLDER.length + 1));
}
