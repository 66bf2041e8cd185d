/**
 * Sets the target of each template's pool: the operator's minimum in any case, and more for demand as far as there is
 * room. Teams get that room in turn, one sandbox at a time, and none of them gets all of it.
 */
import type { TemplatePool } from "./template-pool.ts";

/** The largest part of the room that one team gets. */
const READY_OWNERS_PART = 0.8;

export interface Room {
  places: number;
  bytes: number;
}

/** `pools` are in the order of their last request, newest first. */
export function setTargets(pools: readonly TemplatePool[], room: Room, now: number): void {
  const left = { ...room };
  for (const pool of pools) {
    pool.target = pool.floor;
    spend(left, pool.floor, pool.bytesEach);
  }
  let turns = [...Map.groupBy(pools, ({ demand }) => demand.owner).values()].map((own) => ({
    own,
    share: { places: Math.max(1, Math.floor(room.places * READY_OWNERS_PART)), bytes: room.bytes * READY_OWNERS_PART },
  }));
  while (turns.length > 0) {
    turns = turns.filter(({ own, share }) => {
      const fits = ({ places, bytes }: Room, { bytesEach }: TemplatePool) => places >= 1 && bytes >= bytesEach;
      const isShort = (pool: TemplatePool) =>
        pool.target < pool.demand.wanted(now) && fits(left, pool) && fits(share, pool);
      const next = own.find(isShort);
      if (next === undefined) return false;
      next.target++;
      for (const each of [left, share]) spend(each, 1, next.bytesEach);
      return true;
    });
  }
}

function spend(room: Room, count: number, bytesEach: number): void {
  room.places -= count;
  room.bytes -= count * bytesEach;
}
