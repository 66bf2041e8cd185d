import { expect, test } from "bun:test";
import { Demand, READY_BURST_MS, READY_HALVED_MS, READY_HELD_MS } from "./demand.ts";
import { READY_OWNERS_MAX } from "./limits.ts";

function after(...notes: readonly (readonly [at: number, count: number, owner?: string])[]): Demand {
  const demand = new Demand();
  for (const [at, count, owner = "ours"] of notes) for (let n = 0; n < count; n++) demand.note(owner, at);
  return demand;
}

test("the largest burst counts, not what came one by one", () => {
  const slow = Array.from({ length: 50 }, (_, n) => [n * READY_BURST_MS, 1] as const);
  expect(after(...slow).total(50 * READY_BURST_MS)).toBe(1);
  expect(after([0, 3], [READY_BURST_MS - 1, 4], [2 * READY_BURST_MS, 5]).total(2 * READY_BURST_MS)).toBe(7);
});

test("it holds for a while and then halves, until a smaller burst is the largest", () => {
  const demand = after([0, 20]);
  expect(demand.total(READY_HELD_MS)).toBe(20);
  expect(demand.total(READY_HELD_MS + READY_HALVED_MS)).toBe(10);
  expect(demand.total(READY_HELD_MS + 4 * READY_HALVED_MS)).toBe(1);
  expect(demand.isOver(READY_HELD_MS + 4 * READY_HALVED_MS)).toBe(false);
  expect(demand.isOver(READY_HELD_MS + 5 * READY_HALVED_MS)).toBe(true);
  const late = READY_HELD_MS + 2 * READY_HALVED_MS;
  const again = after([0, 20], [late, 6]);
  expect(again.total(late)).toBe(6);
  expect(again.total(late + READY_HELD_MS)).toBe(6);
});

test("one that was asked for once does not count, nor once more after a long time", () => {
  expect(after([0, 1]).total(0)).toBe(0);
  expect(after([0, 1], [READY_BURST_MS, 1]).total(READY_BURST_MS)).toBe(1);
  const later = READY_HELD_MS + READY_HALVED_MS;
  expect(after([0, 1], [later, 1]).total(later)).toBe(0);
});

test("a clock that is set back does not make it last longer than usual after it", () => {
  const demand = after([1_000_000, 5], [0, 2]);
  expect(demand.total(1_000_000 + READY_HELD_MS + 3 * READY_HALVED_MS)).toBe(0);
});

test("owners are told apart, those who want none left out", () => {
  const demand = after([0, 5, "many"], [1, 1, "lone"], [2, 2, "two"]);
  expect(demand.byOwner(2)).toEqual([
    { owner: "many", count: 5, lastAt: 0 },
    { owner: "two", count: 2, lastAt: 2 },
  ]);
  expect(demand.total(2)).toBe(8);
});

test("the most recent owners are remembered", () => {
  const demand = after(...Array.from({ length: READY_OWNERS_MAX + 1 }, (_, n) => [n, 2, `o${n}`] as const));
  const owners = demand.byOwner(READY_OWNERS_MAX).map(({ owner }) => owner);
  expect([owners.length, owners.includes("o0"), owners.includes("o1")]).toEqual([READY_OWNERS_MAX, false, true]);
});
