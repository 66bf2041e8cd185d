import { expect, spyOn, test } from "bun:test";
import { described, jsonLog, masked, stderrLog } from "./log.ts";

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

test("the log goes to standard error, one line per entry", () => {
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

const HEX = "0123456789abcdef0123456789abcdef01234567";
test.each([
  [`/x/e2b_${HEX}/y`, "/x/e2b_01…4567/y"],
  [`/x/E2B%5F${HEX.toUpperCase()}?`, "/x/E2B%5F01…4567?"],
  [`Bearer sk_e2b_${HEX}`, "Bearer sk_e2b_01…4567"],
  // Cut with its path.
  [`/x/e2b_${HEX.slice(0, 20)}…`, "/x/e2b_01……"],
  ["?token=eyJhbGciOiJIUzI1NiJ9.eyJ2b2x1bWUiOiJ2In0.c2lnbmF0dXJl-_", "?token=eyJ…"],
  [`sha256:${HEX}`, `sha256:${HEX}`],
  ["e2b_short", "e2b_short"],
  ["no postgres://u:ses@me/7@db.example.com/x here", "no postgres://u:…@db.example.com/x here"],
])("the log entry of %s contains no secret", (text, shown) => {
  const lines: string[] = [];
  jsonLog((line) => lines.push(line)).write({ level: "info", event: "a request", path: text });
  expect(JSON.parse(lines[0] ?? "").path).toBe(shown);
  expect(masked(text)).toBe(shown);
});
