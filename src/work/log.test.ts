import { expect, test } from "bun:test";
import { described } from "./log.ts";

test("an error without a stack is still described in words, as a cause, too", () => {
  const bare = new DOMException("The connection was closed.", "AbortError");
  Object.defineProperty(bare, "stack", { value: "" });
  expect(described(bare)).toBe("AbortError: The connection was closed.");
  expect(described(new Error("outer", { cause: bare }))).toEndWith(
    "\ncaused by AbortError: The connection was closed.",
  );
});
