/** Takes away what sandboxes had on this machine: of one that ends, and of all that nobody claims after a restart. */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { removeCgroups } from "../cgroup/cgroups.ts";
import type { Disks } from "../disk/disks.ts";
import type { Network } from "../network/network.ts";
import type { Walls } from "../runtime/walls.ts";
import type { DataFolder } from "../system/data-folder.ts";
import { readRecord, type SandboxRecord } from "./sandbox-record.ts";

/** Where sandboxes have something. */
export interface CleanupParts {
  data: DataFolder;
  walls: Walls;
  network: Network;
  disks: Disks;
}

/** What a sandbox has besides its id; what is not known was never had. */
export interface Remains {
  id: string;
  slot?: number;
  disk?: string;
}

/**
 * Removes all there may be of a sandbox, whatever step it was in. The slot comes last: once it is free it may be
 * another's, and the record, which would have it freed again, must be gone by then.
 */
export async function unmake(parts: CleanupParts, { id, slot, disk }: Remains): Promise<void> {
  const { network } = parts;
  // The kernel takes its time with an interface, in which the rest is done.
  await Promise.all([slot === undefined ? undefined : network.unplug(slot), takeAway(parts, id, disk)]);
  if (slot !== undefined) await network.free(slot);
}

async function takeAway({ data, walls, disks }: CleanupParts, id: string, disk: string | undefined): Promise<void> {
  const folder = join(data.sandboxesFolder, id);
  await walls.remove(id);
  await disks.releaseMounts(folder);
  if (disk !== undefined) await disks.remove(disk);
  await rm(folder, { recursive: true, force: true });
}

/** The same for one of which only the id is known. */
export async function unmakeById(parts: CleanupParts, id: string): Promise<void> {
  await unmake(parts, readRecord(join(parts.data.sandboxesFolder, id)) ?? { id });
}

/** Removes everything that carries this server's name and belongs to no sandbox in `keep`. */
export async function reap(parts: CleanupParts, keep: ReadonlyMap<string, SandboxRecord>): Promise<void> {
  const { data, walls, network, disks } = parts;
  const traces = new Set([...(await walls.list()), ...(await readdir(data.sandboxesFolder))]);
  for (const id of traces) if (!keep.has(id)) await unmakeById(parts, id);
  const kept = [...keep.values()];
  const keptDisks = new Set(kept.map(({ disk }) => disk));
  for (const name of await disks.list()) if (!keptDisks.has(name)) await disks.remove(name);
  await removeCgroups(data.cgroup, new Set(keep.keys()));
  await network.removeInterfaces(new Set(kept.map(({ slot }) => slot)));
}
