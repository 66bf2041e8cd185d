/** `sandlot backup`, `restore` and `verify`. The first two continue in a mount namespace of their own. */
import { join } from "node:path";
import { backUp } from "../backup/backup.ts";
import { BACKUP } from "../backup/contents.ts";
import { Repository, requireTarget } from "../backup/repository.ts";
import { installedRestic } from "../backup/restic-program.ts";
import { restore } from "../backup/restore.ts";
import { version } from "../base/version.ts";
import { Fault } from "../contract/fault.ts";
import { DataFolder } from "../system/data-folder.ts";
import { MountNamespace } from "../system/mount/mount-namespace.ts";
import { replaceProcess } from "../system/syscalls.ts";
import type { Config } from "./config.ts";
import { requireRoot } from "./prepare.ts";

const say = (line: string) => console.log(line);

export async function startBackup(config: Config, target: string): Promise<number> {
  await repositoryAt(config, target);
  if (!DataFolder.isAt(config.dataFolder)) throw new Fault(404, `there is no data folder at ${config.dataFolder}`);
  const namespace = new MountNamespace(new DataFolder(config.dataFolder));
  if (!namespace.exists) {
    throw new Fault(409, `the disks of ${config.dataFolder} are not mounted. FIX: start the server, then back up`);
  }
  return continueAlone(namespace.enterCommand, ["backup", "within", target]);
}

export async function backupWithin(config: Config, target: string): Promise<number> {
  const { cacheFolder } = config;
  const server = { data: new DataFolder(config.dataFolder), cacheFolder, program: version() };
  await backUp(server, await repositoryAt(config, target), say);
  return 0;
}

export async function startRestore(config: Config, target: string, id: string | undefined): Promise<number> {
  await repositoryAt(config, target);
  return continueAlone([], ["restore", "within", target, ...(id === undefined ? [] : ["--backup", id])]);
}

export async function restoreWithin(config: Config, target: string, id: string | undefined): Promise<number> {
  return (await restore(config, await repositoryAt(config, target), id, say)) ? 0 : 1;
}

export async function verify(config: Config, target: string): Promise<number> {
  const repository = await repositoryAt(config, target);
  await repository.require();
  const backups = await repository.list(BACKUP);
  for (const { id, time } of backups) say(`${id.slice(0, 8)}  ${time}`);
  await repository.check();
  say(`sandlot: ${backups.length} backups at ${target}; all of their data matches its digests`);
  return 0;
}

async function repositoryAt(config: Config, target: string): Promise<Repository> {
  requireRoot();
  requireTarget(target, process.env);
  const restic = await installedRestic(config, (line) => console.error(line));
  return new Repository(target, restic, join(config.cacheFolder, "restic-cache"), process.env);
}

/** Replaces this process by one whose mounts no other process sees, and which end with it. */
function continueAlone(enter: readonly string[], words: readonly string[]): never {
  const env = Object.fromEntries(Object.entries(process.env).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])));
  const [program = "", ...rest] = [...enter, "unshare", "--mount", "--propagation=private", "--"];
  const path = Bun.which(program);
  if (path === null) throw new Fault(500, `${program} is missing. FIX: apt-get install util-linux`);
  replaceProcess([path, ...rest, process.execPath, join(import.meta.dir, "main.ts"), ...words], env);
}
