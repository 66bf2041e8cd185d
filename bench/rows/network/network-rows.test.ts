/** What rows about the network reckon with: rates, and that each update has something to change. */
import { expect, test } from "bun:test";
import { perSecond } from "../../figures/samples.ts";
import { rulesOf } from "./network-update.ts";

test("rates are per second, times in milliseconds", () => {
  expect(perSecond(200, 500)).toBe(400);
});

test("rules differ from the previous ones in every name and range, and have the same size", () => {
  const [before, after] = [rulesOf(4), rulesOf(5)];
  for (const list of ["names", "ranges"] as const) {
    expect(after[list].filter((entry) => before[list].includes(entry))).toEqual([]);
    expect(after[list].length).toBe(before[list].length);
  }
});
