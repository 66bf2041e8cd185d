/**
 * Files in a sandbox's own folder that are mounted into it. A sandbox started from a checkpoint inherits some of them
 * and gets others anew.
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

/** Mounted over the kernel's boot id. */
export function makeBootIdFile(folder: string): string {
  const path = join(folder, BOOT_ID_FILE);
  writeFileSync(path, `${crypto.randomUUID()}\n`, { mode: 0o444 });
  return path;
}

/** The secret for the guest's control channel. The sandbox's settings may follow on the next line of the file. */
export function makeControlSecret(folder: string, ids: IdRange): { secret: string; path: string } {
  const path = join(folder, CONTROL_SECRET_FILE);
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES))).toString("hex");
  writeFileSync(path, secret, { mode: 0o400 });
  chownSync(path, ids.first, ids.first);
  return { secret, path };
}

/** Files that a checkpoint stores. The others are made anew for each sandbox started from it. */
export function keptFiles({ mounts }: Pick<SandboxRecord, "mounts">): string[] {
  return mounts
    .filter(({ outside }) => outside.startsWith(`${OWN_FOLDER}/`))
    .map(({ outside }) => outside.slice(OWN_FOLDER.length + 1))
    .filter((name) => name !== MEMINFO_FILE && name !== CONTROL_SECRET_FILE);
}

/** Files that a sandbox takes over from a checkpoint. A copy is a different machine, so it gets a new boot id. */
export function inheritedFiles(record: Pick<SandboxRecord, "mounts">, copy: boolean): string[] {
  return keptFiles(record).filter((name) => !copy || name !== BOOT_ID_FILE);
}
