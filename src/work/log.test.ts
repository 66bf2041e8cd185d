import { expect, spyOn, test } from "bun:test";
import { described, jsonLog, stderrLog } from "./log.ts";

test("a line is one JSON object with the time, the level and the event first", () => {
  const lines: string[] = [];
  const log = jsonLog(
    (line) => lines.push(line),
    () => 1_800_000_000_000,
  );
  log.write({ level: "warn", event: "sandbox lost", sandbox: "i1", error: "two\nlines", absent: undefined });
  expect(lines).toEqual([
    '{"time":"2027-01-15T08:00:00.000Z","level":"warn","event":"sandbox lost","sandbox":"i1","error":"two\\nlines"}',
  ]);
});

test("the log of a program is its standard error, a line at a time", () => {
  const written: string[] = [];
  const spy = spyOn(process.stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
  try {
    stderrLog.write({ level: "info", event: "something" });
  } finally {
    spy.mockRestore();
  }
  expect(written).toHaveLength(1);
  expect(written[0]).toEndWith("}\n");
  expect(JSON.parse(written[0] ?? "")).toMatchObject({ level: "info", event: "something" });
  expect(Date.now() - Date.parse(JSON.parse(written[0] ?? "").time)).toBeLessThan(60_000);
});

test("an error is described with its causes, to a bounded depth", () => {
  const error = new Error("outer", { cause: new Error("inner", { cause: "a word" }) });
  const text = described(error);
  expect(text).toContain("outer");
  expect(text).toContain("caused by Error: inner");
  expect(text).toEndWith("caused by a word");
  const circle = new Error("again");
  circle.cause = circle;
  expect(described(circle).split("caused by")).toHaveLength(8);
});

test("an error without a stack is still described in words, as a cause, too", () => {
  const bare = new DOMException("The connection was closed.", "AbortError");
  Object.defineProperty(bare, "stack", { value: "" });
  expect(described(bare)).toBe("AbortError: The connection was closed.");
  expect(described(new Error("outer", { cause: bare }))).toEndWith(
    "\ncaused by AbortError: The connection was closed.",
  );
});
