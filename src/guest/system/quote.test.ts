import { expect, test } from "bun:test";
import { MESSAGE_MAX_CHARS } from "../limits.ts";
import { boundedMessage, QUOTED_MAX_CHARS, quote } from "./quote.ts";

test("a short text is quoted completely", () => {
  expect(quote('a "b"\n')).toBe('"a \\"b\\"\\n"');
  expect(quote("a", "'")).toBe("'a'");
  expect(quote("x".repeat(QUOTED_MAX_CHARS))).toBe(`"${"x".repeat(QUOTED_MAX_CHARS)}"`);
});

test("a long text is quoted with its beginning and length", () => {
  expect(quote("x".repeat(5_000_000))).toBe(`"${"x".repeat(QUOTED_MAX_CHARS)}"… (5000000 characters)`);
});

test("no character is cut in half", () => {
  expect(quote(`${"x".repeat(QUOTED_MAX_CHARS - 1)}\u{1f600}\u{1f600}`)).not.toContain("ud83d");
  expect(boundedMessage("\u{1f600}".repeat(MESSAGE_MAX_CHARS)).isWellFormed()).toBe(true);
  expect(boundedMessage(`x${"\u{1f600}".repeat(MESSAGE_MAX_CHARS)}`).isWellFormed()).toBe(true);
});

test("only long messages are truncated", () => {
  expect(boundedMessage("as it is")).toBe("as it is");
  expect(boundedMessage("x".repeat(1_000_000))).toBe(`${"x".repeat(MESSAGE_MAX_CHARS)}… (1000000 characters)`);
});
