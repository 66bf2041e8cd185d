import { expect, test } from "bun:test";
import { LOG_KEPT_CHARS, LOG_KEPT_LINES, RecentLines } from "../../server/recent-lines.ts";
import { formatted, type LogFilter } from "./log-format.ts";

const ALL: LogFilter = { level: "info", request: undefined };
const TIME = "2027-01-15T08:00:00.123Z";
const line = (entry: object) => JSON.stringify({ time: TIME, level: "info", event: "request", ...entry });

test("an entry becomes a line: time, level, event, details", () => {
  const text = formatted(line({ request: "0ae5", method: "GET", path: "/a b", status: 200 }), ALL);
  expect(text).toBe('2027-01-15 08:00:00.123 INFO  request request=0ae5 method=GET path="/a b" status=200');
});

test("an error with causes is indented below its line", () => {
  const text = formatted(line({ level: "error", error: "Fault: no\n  at x\ncaused by y" }), ALL);
  expect(text?.split("\n")).toEqual([
    "2027-01-15 08:00:00.123 ERROR request error=",
    "    Fault: no",
    "      at x",
    "    caused by y",
  ]);
});

test("control characters do not reach the terminal", () => {
  expect(formatted(line({ path: "/\x1b[2J" }), ALL)).toContain("/?[2J");
  expect(formatted("plain \x07 text", ALL)).toBe("plain ? text");
  const hostile = "a\u009b\u202e\u2028\x1bz";
  const everywhere = {
    time: hostile,
    level: hostile,
    event: hostile,
    [hostile]: hostile,
    nested: { [hostile]: [hostile] },
  };
  expect(formatted(JSON.stringify(everywhere), { level: "info", request: undefined })).toBeUndefined();
  const text = formatted(JSON.stringify({ ...everywhere, level: "info", lines: `x\n${hostile}` }), ALL);
  expect(text?.replaceAll("\n", "")).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  expect(text).toContain('nested={"a???');
});

test("the filter leaves out lower levels and other requests; other text only passes without a filter", () => {
  const warn: LogFilter = { level: "warn", request: undefined };
  const one: LogFilter = { level: "info", request: "a1" };
  expect(formatted(line({}), warn)).toBeUndefined();
  expect(formatted(line({ level: "error" }), warn)).toBeDefined();
  expect(formatted(line({ request: "a1" }), one)).toBeDefined();
  expect(formatted(line({ request: "a2" }), one)).toBeUndefined();
  for (const text of ["Sandlot is ready", '{"a":1}', "{broken"]) {
    expect(formatted(text, ALL)).toBe(text);
    expect(formatted(text, warn)).toBeUndefined();
    expect(formatted(text, one)).toBeUndefined();
  }
});

test("recent lines are bounded in number and length; the newest stay", () => {
  const lines = new RecentLines();
  for (let nth = 0; nth < 3 * LOG_KEPT_LINES; nth++) lines.add(`line ${nth}`, "info");
  const kept = lines.text.trimEnd().split("\n");
  expect([kept.length, kept.at(-1)]).toEqual([LOG_KEPT_LINES, `line ${3 * LOG_KEPT_LINES - 1}`]);
  lines.add("x".repeat(2 * LOG_KEPT_CHARS), "info");
  expect(lines.text).toBe(`${"x".repeat(LOG_KEPT_CHARS)}\n`);
});

test("requests, however many, displace no warning and no error, and lines keep their order", () => {
  const lines = new RecentLines();
  lines.add("first request", "info");
  lines.add("warning", "warn");
  lines.add("second request", "info");
  lines.add("error", "error");
  expect(lines.text).toBe("first request\nwarning\nsecond request\nerror\n");
  for (let nth = 0; nth < LOG_KEPT_LINES; nth++) lines.add("y".repeat(LOG_KEPT_CHARS), "info");
  expect(lines.text.slice(0, 20)).toBe("warning\nerror\nyyyyyy");
});
