/** Takes away what a sandbox had on this machine, in whatever step it was. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import type { Wall } from "../contract/wall.ts";
import type { Disks } from "../images/disk/disks.ts";
import { emptyingOf } from "../system/cgroup/memory-in-use.ts";
import { endCgroup } from "../system/cgroup/removal.ts";
import { attempt } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import type { Network } from "./network/network.ts";
import type { Runtimes } from "./runtime/runtimes.ts";

/** How long the kernel may work to take the memory of files from a cgroup that is about to go. */
const MEMORY_EMPTY_MS = scaled(2_000);

/** Where sandboxes have something. */
export interface CleanupParts {
  data: DataFolder;
  walls: Runtimes;
  network: Network;
  ranges: IdRanges;
  disks: Disks;
}

/** What a sandbox has besides its id; what is not known was never had. */
export interface Leftovers {
  id: string;
  slot?: number;
  firstId?: number;
  disk?: string;
  wall?: Wall;
  /** It is in a checkpoint. What it is connected with is told that it hung up when it comes back. */
  comesBack?: boolean;
}

/** Who wants to know before all is done. */
interface Told {
  /** No process is left. */
  ended?: (() => void) | undefined;
  /** What is found by its id from now on is not this one any more, but one that came back. */
  gone?: () => void;
}

/**
 * Removes all there may be of a sandbox. The slot and the ids come last: once they are free they may be another's, and
 * the record, which would have them freed again, must be gone by then. Throws `Unended` when a process of it has not
 * ended within `withinMs`: it reaches nobody any more, and what it had stays its own.
 */
export async function unmake(
  parts: CleanupParts,
  leftovers: Leftovers,
  withinMs?: number,
  told: Told = {},
): Promise<void> {
  const { network, ranges } = parts;
  const { id, slot, firstId } = leftovers;
  // The kernel takes its time with an interface, in which the rest is done. Both come to their end, also after a
  // failure: nothing of this may go on beside another try.
  const done = await Promise.allSettled([
    slot === undefined ? undefined : network.unplug(slot),
    takeAway(parts, leftovers, withinMs, told),
  ]);
  for (const each of done) if (each.status === "rejected") throw each.reason;
  if (slot !== undefined) await network.free(slot, leftovers.comesBack === true ? id : undefined);
  if (firstId !== undefined) ranges.free({ first: firstId });
}

async function takeAway(
  { data, walls, disks }: CleanupParts,
  { id, disk, wall }: Leftovers,
  withinMs: number | undefined,
  told: Told,
): Promise<void> {
  const folder = join(data.sandboxesFolder, id);
  const cgroup = `${data.cgroup}/${id}`;
  await endCgroup(cgroup, withinMs);
  told.ended?.();
  await disks.releaseMounts(folder);
  if (disk !== undefined) await disks.remove(disk);
  // After its disk, whose pages nobody has to write any more.
  await emptyMemory(cgroup);
  await walls.remove(id, withinMs, wall);
  await rm(folder, { recursive: true, force: true });
  told.gone?.();
}

/**
 * Parts of files that were read first by this sandbox stay counted for it, and keep what the kernel has of its cgroup
 * for as long as somebody else uses them. The kernel works on it as long as there is something to be had, so it is done
 * by a process that can be ended, not by a thread of the server.
 */
async function emptyMemory(cgroup: string): Promise<void> {
  const emptying = emptyingOf(cgroup);
  if (emptying === undefined) return;
  const write = ["/bin/sh", "-c", 'echo "$2" > "$1"', "sh", emptying.file, emptying.text];
  // What is left, or refused, goes with those who use it.
  await attempt(write, { timeoutMs: MEMORY_EMPTY_MS, name: "emptying a cgroup" }).catch(() => undefined);
}
