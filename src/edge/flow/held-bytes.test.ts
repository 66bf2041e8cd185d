import { expect, test } from "bun:test";
import { EDGE_HELD_MIN_BYTES, EDGE_RESPONSE_WAITING_MAX_BYTES } from "../limits.ts";
import { EDGE_HELD_MAX_BYTES, HeldBytes } from "./held-bytes.ts";

const MOST = EDGE_RESPONSE_WAITING_MAX_BYTES;

/** Holds as much as it may, a piece at a time. */
function fill(held: HeldBytes): void {
  while (!held.isSpent) held.add(EDGE_HELD_MIN_BYTES);
}

test("one sandbox gets a third of the budget, and others still have room", () => {
  const [greedy, other] = [new HeldBytes(), new HeldBytes()];
  fill(greedy);
  expect(greedy.bytes / EDGE_HELD_MAX_BYTES).toBeCloseTo(1 / 3, 1);
  expect([greedy.limit(MOST), other.limit(MOST)]).toEqual([EDGE_HELD_MIN_BYTES, MOST]);
  fill(other);
  expect(other.bytes).toBeLessThan(greedy.bytes);
  expect(other.bytes).toBeGreaterThan(EDGE_HELD_MAX_BYTES / 8);
  greedy.add(-greedy.bytes);
  expect([greedy.limit(MOST), other.limit(MOST)]).toEqual([MOST, MOST]);
  other.add(-other.bytes);
});

test("many sandboxes never hold more than the budget together", () => {
  const all = Array.from({ length: 200 }, () => new HeldBytes());
  for (let round = 0; round < 3; round++) for (const held of all) fill(held);
  expect(all.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(EDGE_HELD_MAX_BYTES);
  for (const held of all) held.add(-held.bytes);
});
