/**
 * Shares out the room there is for ready sandboxes. What the operator has set is kept in any case. The rest goes to
 * owners in turn, one sandbox at a time, and no owner gets all of it: whoever asks for many, of many templates, leaves
 * something to those who ask next.
 */

import type { OwnersDemand } from "./demand.ts";
import { READY_OWNERS_PART } from "./limits.ts";

export interface Claim {
  /** The operator's minimum. */
  floor: number;
  bytesEach: number;
  /** The most that all owners together have demand for. */
  most: number;
  owners: readonly OwnersDemand[];
}

export interface Room {
  places: number;
  bytes: number;
}

interface Purse extends Room {
  lastAt: number;
  wanted: { claim: Claim; count: number; lastAt: number }[];
}

/** How many to keep of each. */
export function shareOut<Each extends Claim>(claims: readonly Each[], room: Room): Map<Each, number> {
  const granted = new Map<Claim, number>(claims.map((claim) => [claim, 0]));
  const left = { ...room };
  for (const { floor, bytesEach } of claims) spend(left, floor, bytesEach);
  let purses = pursesOf(claims, room);
  while (purses.length > 0) purses = purses.filter((purse) => grantOne(purse, left, granted));
  return new Map(claims.map((claim) => [claim, Math.max(claim.floor, granted.get(claim) ?? 0)]));
}

/** What each owner wants and may have, most recent owner first. */
function pursesOf(claims: readonly Claim[], room: Room): Purse[] {
  const purses = new Map<string, Purse>();
  const places = Math.max(1, Math.floor(room.places * READY_OWNERS_PART));
  const bytes = room.bytes * READY_OWNERS_PART;
  for (const claim of claims) {
    for (const { owner, count, lastAt } of claim.owners) {
      const purse = purses.get(owner) ?? { places, bytes, lastAt, wanted: [] };
      purse.wanted.push({ claim, count, lastAt });
      purse.lastAt = Math.max(purse.lastAt, lastAt);
      purses.set(owner, purse);
    }
  }
  for (const { wanted } of purses.values()) wanted.sort((one, other) => other.lastAt - one.lastAt);
  return [...purses.values()].sort((one, other) => other.lastAt - one.lastAt);
}

/** False: this owner gets no more. */
function grantOne(purse: Purse, left: Room, granted: Map<Claim, number>): boolean {
  for (;;) {
    const next = purse.wanted[0];
    if (next === undefined) return false;
    const { claim } = next;
    const had = granted.get(claim) ?? 0;
    // The first ones are covered by the minimum, which is already paid for.
    const isFree = had < claim.floor;
    if (next.count > 0 && had < claim.most && (isFree || (fits(left, claim) && fits(purse, claim)))) {
      next.count--;
      granted.set(claim, had + 1);
      if (!isFree) for (const each of [left, purse]) spend(each, 1, claim.bytesEach);
      return true;
    }
    purse.wanted.shift();
  }
}

function fits({ places, bytes }: Room, { bytesEach }: Claim): boolean {
  return places >= 1 && bytes >= bytesEach;
}

function spend(room: Room, count: number, bytesEach: number): void {
  room.places -= count;
  room.bytes -= count * bytesEach;
}
