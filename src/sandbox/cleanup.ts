/** Removes everything a sandbox has on this machine, at whatever step of its life it stopped. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import type { RuntimeName } from "../contract/runtime-name.ts";
import type { Disks } from "../images/disk/disks.ts";
import { reclaimFileOf } from "../system/cgroup/memory-in-use.ts";
import { endCgroup } from "../system/cgroup/removal.ts";
import { attempt } from "../system/command.ts";
import type { DataFolder } from "../system/data-folder.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import type { Network } from "./network/network.ts";
import type { Runtimes } from "./runtime/runtimes.ts";

/** Timeout for the kernel to reclaim page cache from a cgroup that is about to be removed. */
const MEMORY_RECLAIM_MS = scaled(2_000);

export interface CleanupParts {
  data: DataFolder;
  runtimes: Runtimes;
  network: Network;
  ranges: IdRanges;
  disks: Disks;
}

/** The resources of one sandbox. A missing field means that the sandbox never had that resource. */
export interface Leftovers {
  id: string;
  slot?: number;
  firstId?: number;
  disk?: string;
  wall?: RuntimeName;
  /** The sandbox continues in a checkpoint. When it is restored, it closes the connections it had to its peers. */
  willResume?: boolean;
}

/**
 * Removes everything a sandbox may have. The slot and the user ids are freed last: another sandbox may take them at
 * once, so the record, which would free them a second time, must be gone by then. Throws `ProcessesRemain` when a
 * process has not ended within `withinMs`. Such a process is cut off from the network and keeps its slot, ids, disk and
 * folder. `onRemoved` runs as soon as everything but the slot and the ids is removed: from then on the sandbox's id may
 * belong to a restored sandbox.
 */
export async function removeResources(
  parts: CleanupParts,
  leftovers: Leftovers,
  withinMs?: number,
  onRemoved?: () => void,
): Promise<void> {
  const { network, ranges } = parts;
  const { id, slot, firstId } = leftovers;
  // The kernel is slow to remove an interface, so the rest runs beside it. Both run to their end even after a failure:
  // no step may overlap with a retry.
  const done = await Promise.allSettled([
    slot === undefined ? undefined : network.unplug(slot),
    removeFromMachine(parts, leftovers, withinMs).then(onRemoved),
  ]);
  for (const each of done) if (each.status === "rejected") throw each.reason;
  if (slot !== undefined) await network.free(slot, leftovers.willResume === true ? id : undefined);
  if (firstId !== undefined) ranges.free({ first: firstId });
}

async function removeFromMachine(
  { data, runtimes, disks }: CleanupParts,
  { id, disk, wall }: Leftovers,
  withinMs: number | undefined,
): Promise<void> {
  const folder = join(data.sandboxesFolder, id);
  const cgroup = `${data.cgroup}/${id}`;
  await endCgroup(cgroup, withinMs);
  await disks.releaseMounts(folder);
  if (disk !== undefined) await disks.remove(disk);
  // After the disk is removed, so that its dirty pages need no writing.
  await reclaimMemory(cgroup);
  await runtimes.remove(id, withinMs, wall);
  await rm(folder, { recursive: true, force: true });
}

/**
 * Page cache of files that this sandbox read first stays charged to its cgroup, and keeps the kernel's cgroup
 * structures alive for as long as other processes use those files. The kernel reclaims for as long as it finds pages,
 * so a separate process with a timeout requests it, not a thread of the server.
 */
async function reclaimMemory(cgroup: string): Promise<void> {
  const reclaim = reclaimFileOf(cgroup);
  if (reclaim === undefined) return;
  const write = ["/bin/sh", "-c", 'echo "$2" > "$1"', "sh", reclaim.file, reclaim.text];
  // Pages that remain are freed together with their other users.
  await attempt(write, { timeoutMs: MEMORY_RECLAIM_MS, name: "reclaiming the memory of a cgroup" }).catch(
    () => undefined,
  );
}
