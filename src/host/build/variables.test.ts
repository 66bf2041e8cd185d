/** What is put in for variables, and what is left as it is. */
import { expect, test } from "bun:test";
import { BUILD_VALUE_MAX_BYTES } from "../limits.ts";
import { expand } from "./variables.ts";

const braced = (text: string) => `$\{${text}}`;
const variables = { A: "a", EMPTY: "", PATH: "/bin", X_1: "x" };

test.each([
  ["plain", "plain"],
  ["$A", "a"],
  [`${braced("A")}b`, "ab"],
  ["/opt:$PATH:$X_1", "/opt:/bin:x"],
  ["$A$A", "aa"],
  ["$NOBODY", ""],
  [braced("NOBODY:-other"), "other"],
  [braced("EMPTY:-other"), "other"],
  [braced("A:-other"), "a"],
  [braced("A:+other"), "other"],
  [braced("EMPTY:+other"), ""],
  ["\\$A", "$A"],
  ["100$", "100$"],
  ["$1 $$ ${", "$1 $$ ${"],
  ["$(id) `id`", "$(id) `id`"],
  ["$constructor$__proto__", ""],
])("%j is %j", (text, meaning) => {
  expect(expand(text, variables)).toBe(meaning);
});

test("a value can be doubled only until it is as long as a variable may be", () => {
  const half = "x".repeat(BUILD_VALUE_MAX_BYTES / 2);
  expect(expand("$H$H", { H: half })).toBe(half + half);
  expect(() => expand("$H$H.", { H: half })).toThrow("has more than 131072 bytes with its variables put in");
  expect(() => expand("$H".repeat(1_000_000), { H: half })).toThrow("has more than 131072 bytes");
});
