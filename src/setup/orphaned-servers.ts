/**
 * Removes remains of servers whose data folder is gone: the run folder, which reserves a net and ranges of user ids,
 * and firewall tables, which would block packets of a later server with the same net. The next start of any server does
 * this, unless a process of the gone server still runs.
 */
import { existsSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { Network } from "../sandbox/network/network.ts";
import { ANY_INTERFACE } from "../sandbox/network/slot-chains.ts";
import { removeEdgeCgroups } from "../system/cgroup/edge-memory.ts";
import { freezerOf, processesBelow } from "../system/cgroup/freezer.ts";
import { removeCgroups } from "../system/cgroup/removal.ts";
import { attempt, run } from "../system/command.ts";
import {
  cgroupOfServer,
  type DataFolder,
  dataFolderOf,
  hasRunFolder,
  isServerAt,
  otherServers,
  takeLockOfAllServers,
} from "../system/data-folder.ts";
import { detachBelow, MountNamespace } from "../system/mount/mount-namespace.ts";
import { runningServerIn } from "../system/server-process.ts";
import { undoSettings } from "./host-changes.ts";

/** A server counts as gone when its run folder has not changed for this time. */
const GONE_SERVER_AFTER_MS = scaled(60_000);

const TABLES = /^table inet sandlot_([a-z0-9]{4})$/gm;

/** Covers all servers but this one. `failed` receives removal errors. */
export async function removeOrphanedServers(
  { tag }: Pick<DataFolder, "tag">,
  failed: (runFolder: string, error: unknown) => void,
): Promise<void> {
  using lock = takeLockOfAllServers("gone");
  if (lock === undefined) return;
  for (const runFolder of otherServers(tag)) {
    try {
      if (await isGone(runFolder)) await removeAll(runFolder);
    } catch (error) {
      // Its remains stay until the next start; this start continues.
      failed(runFolder, error);
    }
  }
  await removeTables();
}

async function isGone(runFolder: string): Promise<boolean> {
  const [tag, path] = [basename(runFolder), dataFolderOf(runFolder)];
  if (path === undefined || isServerAt(path, tag) || runningServerIn(runFolder) !== undefined) return false;
  // It may be starting now, with a data folder visible only to itself.
  const touchedMs = statSync(runFolder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
  if (touchedMs > Date.now() - GONE_SERVER_AFTER_MS) return false;
  const cgroup = freezerOf(cgroupOfServer(tag));
  return !existsSync(cgroup) || (await processesBelow(cgroup)).length === 0;
}

async function removeAll(runFolder: string): Promise<void> {
  const gone = { runFolder, tag: basename(runFolder) };
  // Without a net file it never had a network.
  if (existsSync(join(runFolder, "net"))) await new Network(gone).remove();
  await removeCgroups(cgroupOfServer(gone.tag));
  await removeEdgeCgroups(gone.tag);
  new MountNamespace(gone).remove();
  // The note is in the run folder, which may itself be a mount.
  undoSettings(gone);
  detachBelow(runFolder);
  await rm(runFolder, { recursive: true, force: true });
}

/** Removes tables of servers without a run folder. While interfaces are left, a table may confine a sandbox. */
async function removeTables(): Promise<void> {
  const { stdout } = await attempt(["nft", "list", "tables", "inet"]);
  const tags = [...stdout.matchAll(TABLES)].map(([, tag = ""]) => tag).filter((tag) => !hasRunFolder(tag));
  if (tags.length === 0) return;
  const links = await run(["ip", "-oneline", "link", "show", "type", "veth"]);
  for (const tag of tags) {
    if (!links.includes(` ${ANY_INTERFACE}${tag}`)) await attempt(["nft", "delete", "table", "inet", `sandlot_${tag}`]);
  }
}
