import { expect, test } from "bun:test";
import { Demand, READY_BURST_MS, READY_HALVED_MS, READY_HELD_MS } from "./demand.ts";

function after(...notes: readonly (readonly [at: number, count: number])[]): Demand {
  const demand = new Demand();
  for (const [at, count] of notes) for (let n = 0; n < count; n++) demand.note("ours", at);
  return demand;
}

test("demand is the size of the largest burst, not of single creates", () => {
  const slow = Array.from({ length: 50 }, (_, n) => [n * READY_BURST_MS, 1] as const);
  expect(after(...slow).wanted(50 * READY_BURST_MS)).toBe(1);
  expect(after([0, 3], [READY_BURST_MS - 1, 4], [2 * READY_BURST_MS, 5]).wanted(2 * READY_BURST_MS)).toBe(7);
});

test("demand stays for a while and then halves, until a smaller burst is the largest", () => {
  const demand = after([0, 20]);
  expect(demand.wanted(READY_HELD_MS)).toBe(20);
  expect(demand.wanted(READY_HELD_MS + READY_HALVED_MS)).toBe(10);
  expect(demand.wanted(READY_HELD_MS + 4 * READY_HALVED_MS)).toBe(1);
  expect(demand.isOver(READY_HELD_MS + 4 * READY_HALVED_MS)).toBe(false);
  expect(demand.isOver(READY_HELD_MS + 5 * READY_HALVED_MS)).toBe(true);
  const late = READY_HELD_MS + 2 * READY_HALVED_MS;
  const again = after([0, 20], [late, 6]);
  expect(again.wanted(late)).toBe(6);
  expect(again.wanted(late + READY_HELD_MS)).toBe(6);
});

test("a single create does not count, nor another after a long time", () => {
  expect(after([0, 1]).wanted(0)).toBe(0);
  expect(after([0, 1], [READY_BURST_MS, 1]).wanted(READY_BURST_MS)).toBe(1);
  const later = READY_HELD_MS + READY_HALVED_MS;
  expect(after([0, 1], [later, 1]).wanted(later)).toBe(0);
});

test("a clock that is set back does not prolong demand", () => {
  const demand = after([1_000_000, 5], [0, 2]);
  expect(demand.wanted(1_000_000 + READY_HELD_MS + 3 * READY_HALVED_MS)).toBe(0);
});
