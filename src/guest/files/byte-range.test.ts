import { expect, test } from "bun:test";
import { isUnchanged, parseRange, rangeHolds } from "./byte-range.ts";

test.each([
  [null, "all"],
  ["bytes=0-0", { start: 0, end: 0 }],
  ["bytes=2-5", { start: 2, end: 5 }],
  ["bytes=8-", { start: 8, end: 9 }],
  ["bytes=-3", { start: 7, end: 9 }],
  ["bytes=-30", { start: 0, end: 9 }],
  ["bytes=5-100", { start: 5, end: 9 }],
  ["bytes=0-1,4-5", "all"],
  ["bytes=10-", "unsatisfiable"],
  ["bytes=5-2", "unsatisfiable"],
  ["bytes=-0", "unsatisfiable"],
  ["bytes=-", "unsatisfiable"],
  ["bytes=a-b", "unsatisfiable"],
  ["lines=0-1", "unsatisfiable"],
] as const)("Range %j of ten bytes is %j", (header, range) => {
  expect(parseRange(header, 10)).toEqual(range);
});

test("an empty file satisfies no range", () => {
  expect(parseRange("bytes=0-", 0)).toBe("unsatisfiable");
  expect(parseRange("bytes=-1", 0)).toBe("unsatisfiable");
});

const modified = Date.parse("2024-05-01T10:00:00.700Z");
const headers = (entries: Record<string, string>) => new Headers(entries);

test("a copy is good when the file was not modified since, to the second", () => {
  expect(isUnchanged(headers({ "if-modified-since": "Wed, 01 May 2024 10:00:00 GMT" }), modified)).toBe(true);
  expect(isUnchanged(headers({ "if-modified-since": "Wed, 01 May 2024 09:59:59 GMT" }), modified)).toBe(false);
  expect(isUnchanged(headers({ "if-modified-since": "yesterday" }), modified)).toBe(false);
  expect(isUnchanged(headers({}), modified)).toBe(false);
});

test("entity tags come before dates", () => {
  const later = "Wed, 01 May 2030 10:00:00 GMT";
  expect(isUnchanged(headers({ "if-none-match": '"x"', "if-modified-since": later }), modified)).toBe(false);
  expect(isUnchanged(headers({ "if-none-match": "*" }), modified)).toBe(true);
});

test("a guarded range holds only for the very same file", () => {
  expect(rangeHolds(headers({}), modified)).toBe(true);
  expect(rangeHolds(headers({ "if-range": "Wed, 01 May 2024 10:00:00 GMT" }), modified)).toBe(true);
  expect(rangeHolds(headers({ "if-range": "Wed, 01 May 2024 10:00:01 GMT" }), modified)).toBe(false);
  expect(rangeHolds(headers({ "if-range": '"tag"' }), modified)).toBe(false);
});
