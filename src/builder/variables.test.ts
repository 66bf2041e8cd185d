// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables are written so.
/** Substitution of variables, and texts that stay as they are. */
import { expect, test } from "bun:test";
import { BUILD_VALUE_MAX_BYTES } from "./limits.ts";
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
  [braced("EMPTY-other"), ""],
  [braced("EMPTY+other"), "other"],
  [braced("NOBODY-other"), "other"],
  [braced("NOBODY+other"), ""],
  [braced("A:?other"), "a"],
  [`/x${braced(`PATH:+:${braced("PATH")}`)}:y`, "/x:/bin:y"],
  [`${braced(`NOBODY:-${braced("EMPTY:-$A")}b`)}}`, "ab}"],
  [braced("A:-b"), "a"],
  [`${"${A:-"}b`, `${"${A:-"}b`],
  [braced("A#b"), braced("A#b")],
  [braced("A:-\\$A"), "a"],
  [braced("NOBODY:-\\$A"), "$A"],
  ["\\$A", "$A"],
  ["100$", "100$"],
  ["$1 $$ ${", "$1 $$ ${"],
  ["$(id) `id`", "$(id) `id`"],
  ["$constructor$__proto__", ""],
])("%j is %j", (text, meaning) => {
  expect(expand(text, variables)).toBe(meaning);
});

test("a missing required variable is rejected with its own message", () => {
  expect(() => expand(braced("EMPTY:?say $A"), variables)).toThrow("$EMPTY is not set: say a");
});

test("nesting is bounded, and an unclosed expression is quick to reject", () => {
  expect(() => expand("${N:-".repeat(17) + "}".repeat(17), {})).toThrow("nested deeper than 16 levels");
  const open = "${N:-".repeat(20_000);
  expect(expand(open, {})).toBe(open);
});

test("a repeatedly doubled value is rejected at the maximum length", () => {
  const half = "x".repeat(BUILD_VALUE_MAX_BYTES / 2);
  expect(expand("$H$H", { H: half })).toBe(half + half);
  expect(() => expand("$H$H.", { H: half })).toThrow("has more than 131072 bytes with its variables put in");
  expect(() => expand("$H".repeat(1_000_000), { H: half })).toThrow("has more than 131072 bytes");
});
