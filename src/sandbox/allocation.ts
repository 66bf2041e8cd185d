/** What each sandbox has that no other has at the same time: a slot of the network, a range of user ids, a folder. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readText } from "../system/data-folder.ts";
import type { IdRange } from "../system/id-range.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import type { Network } from "./network/network.ts";

/** How long a create waits, when all network slots are in use, for one that is given back. */
const SLOT_WAIT_MS = 5_000;

/** Of a sandbox that has no record yet. */
const IDS_FILE = "ids";

/**
 * Both, or a Fault and neither. When all slots are in use, it waits a moment for one that is given back: a pause or a
 * kill is answered before the slot of the sandbox is free.
 */
export async function takeAllocation(
  ranges: Pick<IdRanges, "take" | "free">,
  network: Pick<Network, "untilFreed">,
  takeSlot: () => number,
  waitMs = SLOT_WAIT_MS,
): Promise<{ slot: number; ids: IdRange }> {
  const ids = ranges.take();
  const deadline = performance.now() + waitMs;
  for (;;) {
    try {
      return { slot: takeSlot(), ids };
    } catch (cause) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        ranges.free(ids);
        throw cause;
      }
      await network.untilFreed(leftMs);
    }
  }
}

/** Says from the first moment which ids are taken: a server that is killed here may leave processes that have them. */
export function makeFolder(folder: string, ids: IdRange): void {
  mkdirSync(folder, { mode: 0o711 });
  writeFileSync(join(folder, IDS_FILE), String(ids.first), { mode: 0o600 });
}

/** Those of the sandbox with this folder. Undefined: they were not taken by a server that says so. */
export function notedIds(folder: string): number | undefined {
  const first = Number(readText(join(folder, IDS_FILE)));
  return first > 0 ? first : undefined;
}

/** Those of all sandboxes that have their folder there. */
export function idsNotedIn(sandboxesFolder: string): number[] {
  return readdirSync(sandboxesFolder).flatMap((name) => notedIds(join(sandboxesFolder, name)) ?? []);
}
