/** `sandlot backup`, `restore` and `verify`. The first two continue in a mount namespace of their own. */
import { join } from "node:path";
import { backUp } from "../../backup/backup.ts";
import { Repository, requireTarget } from "../../backup/repository.ts";
import { installedRestic } from "../../backup/restic-program.ts";
import { restore } from "../../backup/restore.ts";
import { verify as verifyBackups } from "../../backup/verify.ts";
import { version } from "../../base/version.ts";
import { Fault } from "../../contract/fault.ts";
import { ownEnv } from "../../system/command.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { MountNamespace } from "../../system/mount/mount-namespace.ts";
import { replaceProcess } from "../../system/syscalls.ts";
import { storeUrl } from "../folder-store.ts";
import { requireRoot } from "../prepare.ts";
import type { Config } from "../settings/config.ts";

const say = (line: string) => console.log(line);

export interface BackupOptions {
  /** Whether a missing repository is made. */
  init: boolean;
  /** Days. */
  keep: string | undefined;
}

export async function startBackup(config: Config, target: string, options: BackupOptions): Promise<number> {
  keptDays(options);
  refusePostgres(config);
  await repositoryAt(config, target);
  if (!DataFolder.isAt(config.dataFolder)) throw new Fault(404, `there is no data folder at ${config.dataFolder}`);
  const namespace = new MountNamespace(new DataFolder(config.dataFolder));
  if (!namespace.exists) {
    throw new Fault(409, `the disks of ${config.dataFolder} are not mounted. FIX: start the server, then back up`);
  }
  const { init, keep } = options;
  const words = [...(init ? ["--init"] : []), ...(keep === undefined ? [] : ["--keep", keep])];
  return continueAlone(namespace.enterCommand, ["backup", "within", target, ...words]);
}

export async function backupInNamespace(config: Config, target: string, options: BackupOptions): Promise<number> {
  const { cacheFolder } = config;
  const server = { data: new DataFolder(config.dataFolder), cacheFolder, program: version() };
  const order = { init: options.init, keepDays: keptDays(options) };
  return (await backUp(server, await repositoryAt(config, target), order, say)) ? 0 : 1;
}

function keptDays({ keep }: BackupOptions): number | undefined {
  if (keep === undefined || /^[1-9]\d{0,4}$/.test(keep)) return keep === undefined ? undefined : Number(keep);
  throw new Fault(400, `--keep must be a number of days from 1 to 99999, not "${keep}"`);
}

export async function startRestore(config: Config, target: string, id: string | undefined): Promise<number> {
  refusePostgres(config);
  await repositoryAt(config, target);
  return continueAlone([], ["restore", "within", target, ...(id === undefined ? [] : ["--backup", id])]);
}

export async function restoreInNamespace(config: Config, target: string, id: string | undefined): Promise<number> {
  return (await restore(config, await repositoryAt(config, target), id, say)) ? 0 : 1;
}

export async function verify(config: Config, target: string): Promise<number> {
  return (await verifyBackups(await repositoryAt(config, target), say)) ? 0 : 1;
}

function refusePostgres(config: Config): void {
  if (config.postgres === undefined) {
    if (DataFolder.isAt(config.dataFolder)) storeUrl(config);
    return;
  }
  throw new Fault(
    422,
    "backups of a store in Postgres are not supported yet. FIX: back up the database with pg_dump, and the data folder " +
      "with it, as docs/postgres.md#backup says",
  );
}

async function repositoryAt(config: Config, target: string): Promise<Repository> {
  requireRoot();
  requireTarget(target, process.env);
  const restic = await installedRestic(config, (line) => console.error(line));
  return new Repository(target, restic, join(config.cacheFolder, "restic-cache"), process.env);
}

/** Replaces this process by one whose mounts no other process sees, and which end with it. */
function continueAlone(enter: readonly string[], words: readonly string[]): never {
  const [program = "", ...rest] = [...enter, "unshare", "--mount", "--propagation=private", "--"];
  const path = Bun.which(program);
  if (path === null) throw new Fault(500, `${program} is missing. FIX: apt-get install util-linux`);
  replaceProcess([path, ...rest, process.execPath, join(import.meta.dir, "../main.ts"), ...words], ownEnv());
}
