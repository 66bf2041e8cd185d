import { expect, test } from "bun:test";
import { wholeNumber } from "./whole-number.ts";

test("only digits are a number", () => {
  expect(["0", "7", "007", "1024", "9223372036854771712"].map((text) => wholeNumber(text))).toEqual([
    0,
    7,
    7,
    1024,
    2 ** 63 - 4096,
  ]);
  for (const text of [undefined, "", " ", "max", "-1", "+1", "1.5", "1e3", "0x10", "1 ", "1\n", "١"]) {
    expect(wholeNumber(text)).toBeUndefined();
  }
});

test("a number with too many digits is rejected", () => {
  expect(wholeNumber("123", 3)).toBe(123);
  expect(wholeNumber("1234", 3)).toBeUndefined();
});
