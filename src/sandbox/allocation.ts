/** Resources that each sandbox has to itself: a network slot, a range of user ids, a folder. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readText } from "../system/data-folder.ts";
import type { IdRange } from "../system/id-range.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import type { Network } from "./network/network.ts";

/** How long a create waits for a free network slot when all are in use. */
const SLOT_WAIT_MS = 5_000;

/** Holds the user ids of a sandbox that has no record yet. */
const IDS_FILE = "ids";

/**
 * Returns a slot and ids, or throws a Fault and takes neither. When all slots are in use, it waits briefly, because the
 * response to a pause or kill is sent before the slot is free.
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

/** Records the ids before any process has them: a server killed during the start may leave processes with these ids. */
export function makeFolder(folder: string, ids: IdRange): void {
  mkdirSync(folder, { mode: 0o711 });
  writeFileSync(join(folder, IDS_FILE), String(ids.first), { mode: 0o600 });
}

/** The first user id of the sandbox with this folder. Undefined if the server was killed before it noted it. */
export function notedIds(folder: string): number | undefined {
  const first = Number(readText(join(folder, IDS_FILE)));
  return first > 0 ? first : undefined;
}

export function idsNotedIn(sandboxesFolder: string): number[] {
  return readdirSync(sandboxesFolder).flatMap((name) => notedIds(join(sandboxesFolder, name)) ?? []);
}
