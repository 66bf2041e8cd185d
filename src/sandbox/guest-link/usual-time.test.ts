import { expect, test } from "bun:test";
import { UsualTime } from "./usual-time.ts";

function firstLookAfter(...took: number[]): number {
  const usual = new UsualTime();
  for (const ms of took) usual.note(ms);
  return usual.firstLookMs;
}

test("the first look comes somewhat before the last guest was there, within bounds", () => {
  expect(firstLookAfter()).toBe(8);
  expect(firstLookAfter(3)).toBe(8);
  expect(firstLookAfter(20)).toBeCloseTo(14);
  expect(firstLookAfter(3000)).toBe(40);
});

test("what was long once is forgotten within a few", () => {
  const usual = new UsualTime();
  usual.note(3000);
  let looks = 0;
  // Each is there long before it is looked for.
  for (; usual.firstLookMs > 8; looks++) usual.note(usual.firstLookMs);
  expect(looks).toBeLessThanOrEqual(5);
});
