/** Takes away what a sandbox had on this machine, in whatever step it was. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Disks } from "../disk/disks.ts";
import type { Network } from "../network/network.ts";
import type { Walls } from "../runtime/walls.ts";
import type { DataFolder } from "../system/data-folder.ts";
import type { IdRanges } from "../system/id-ranges.ts";

/** Where sandboxes have something. */
export interface CleanupParts {
  data: DataFolder;
  walls: Walls;
  network: Network;
  ranges: IdRanges;
  disks: Disks;
}

/** What a sandbox has besides its id; what is not known was never had. */
export interface Remains {
  id: string;
  slot?: number;
  firstId?: number;
  disk?: string;
}

/**
 * Removes all there may be of a sandbox. The slot and the ids come last: once they are free they may be another's, and
 * the record, which would have them freed again, must be gone by then. Throws `Unended` when a process of it has not
 * ended within `withinMs`: it reaches nobody any more, and what it had stays its own.
 */
export async function unmake(parts: CleanupParts, remains: Remains, withinMs?: number): Promise<void> {
  const { network, ranges } = parts;
  const { id, slot, firstId, disk } = remains;
  // The kernel takes its time with an interface, in which the rest is done. Both come to their end, also after a
  // failure: nothing of this may go on beside another try.
  const done = await Promise.allSettled([
    slot === undefined ? undefined : network.unplug(slot),
    takeAway(parts, id, disk, withinMs),
  ]);
  for (const each of done) if (each.status === "rejected") throw each.reason;
  if (slot !== undefined) await network.free(slot);
  if (firstId !== undefined) ranges.free({ first: firstId });
}

async function takeAway(
  { data, walls, disks }: CleanupParts,
  id: string,
  disk: string | undefined,
  withinMs: number | undefined,
): Promise<void> {
  const folder = join(data.sandboxesFolder, id);
  await walls.remove(id, withinMs);
  await disks.releaseMounts(folder);
  if (disk !== undefined) await disks.remove(disk);
  await rm(folder, { recursive: true, force: true });
}
