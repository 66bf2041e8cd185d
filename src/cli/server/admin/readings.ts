/** The machine and its sandboxes at this moment, for the metrics and for `sandlot status`. */
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Machine } from "../../../host/machine.ts";
import type { Readings } from "../../../metrics/server-metrics.ts";
import type { Store } from "../../../store/store.ts";
import { memoryInUse } from "../../../system/cgroup/memory-in-use.ts";
import { memoryLeft } from "../../../system/cgroup/memory-left.ts";
import type { DataFolder } from "../../../system/data-folder.ts";
import { mergedMemory } from "../../../system/page-merging.ts";
import type { Config } from "../../settings/config.ts";

/** The parts of the running server that its operator reads. */
export interface ServerParts {
  data: DataFolder;
  store: Store;
  host: Machine;
  config: Config;
}

export async function readings({ data, store, host, config }: ServerParts): Promise<Readings> {
  const { totalBytes, availableBytes } = memoryLeft(data.cgroup);
  const { sharedBytes, savedBytes } = mergedMemory() ?? { sharedBytes: 0, savedBytes: 0 };
  const { network } = host.parts;
  const pool = host.poolReport();
  return {
    slots: { total: network.slotCount, free: network.freeSlots },
    disk: await spaceOf(join(data.path, "disks")),
    dataDisk: await spaceOf(data.path),
    memory: {
      totalBytes,
      availableBytes,
      reserveBytes: Math.floor((totalBytes * config.memoryReserve) / 100),
      isShort: pool.isShortOfMemory === true,
      usedBytes: memoryInUse(data.cgroup),
      sharedBytes,
      savedBytes,
    },
    sandboxes: await store.sandboxes.counts(),
    pool,
  };
}

async function spaceOf(folder: string): Promise<{ totalBytes: number; freeBytes: number }> {
  const { blocks, bsize, bavail } = await statfs(folder);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
}
