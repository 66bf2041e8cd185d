import { expect, test } from "bun:test";
import { matchesAny } from "./access.ts";

test.each([
  ["token", ["token"], true],
  ["token", ["other", "token", "another"], true],
  ["token", [], false],
  ["", ["token"], false],
  ["toke", ["token"], false],
  ["tokens", ["token"], false],
  ["tokem", ["token"], false],
  ["Token", ["token"], false],
  ["token\0", ["token"], false],
  ["token", ["token\0"], false],
  ["töken", ["tøken"], false],
  ["\u{1f511}", ["\u{1f511}"], true],
])("%j of %j: %p", (given, candidates, matches) => {
  expect(matchesAny(given, candidates)).toBe(matches);
});
