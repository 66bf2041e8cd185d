import { expect, test } from "bun:test";
import { allExcept, FORBIDDEN_REQUESTS } from "./ioctl.ts";

const rules = allExcept(FORBIDDEN_REQUESTS);
const matching = (request: number) => rules.filter(({ mask, value }) => (request & mask) >>> 0 === value).length;

test("blocked ioctls match no rule, and all others match one", () => {
  for (const request of FORBIDDEN_REQUESTS) expect(matching(request)).toBe(0);
  const near = FORBIDDEN_REQUESTS.flatMap((request) =>
    Array.from({ length: BITS }, (_, bit) => (request ^ (1 << bit)) >>> 0),
  );
  const others = [0, 0xffffffff, 0x5401, 0x5413, 0x541b, 0x5421, 0x80045430, 0xc0189436, ...near];
  for (const request of others)
    expect([request, matching(request)]).toEqual([request, FORBIDDEN_REQUESTS.includes(request) ? 0 : 1]);
});

test("few rules cover all allowed ioctls", () => {
  expect(rules.length).toBeLessThan(80);
  const covered = rules.reduce((sum, { mask }) => sum + 2 ** (BITS - bitsIn(mask)), 0);
  expect(covered).toBe(2 ** BITS - FORBIDDEN_REQUESTS.length);
});

const BITS = 32;

function bitsIn(mask: number): number {
  return mask.toString(2).replaceAll("0", "").length;
}
