import { expect, test } from "bun:test";
import type { KernelOutput } from "./kernel.ts";
import { lineOf } from "./lines.ts";

function result(bundle: Record<string, string>, isMain = true): string {
  return lineOf({ kind: "result", isMain, bundle });
}

test("numbers keep the kernel's text", () => {
  expect(result({ "application/json": '{"a":1.0,"b":[1e100,12345678901234567890]}' })).toBe(
    '{"type":"result","is_main_result":true,"extra":{},"json":{"a":1.0,"b":[1e100,12345678901234567890]}}\n',
  );
});

test("only MIME types unknown to clients are extra", () => {
  const bundle = { "text/plain": '"x"', "application/x-other": '{"a":1.0}', constructor: "1", "image/png": '"iV"' };
  expect(result(bundle, false)).toBe(
    '{"type":"result","is_main_result":false,"extra":{"application/x-other":{"a":1.0},"constructor":1},' +
      '"text":"x","png":"iV"}\n',
  );
});

test.each([
  ["'abc'", "abc"],
  ['"abc"', "abc"],
  ["'it\"s'", 'it"s'],
  ["''", ""],
  ["'", "'"],
  ["'abc\"", "'abc\""],
  ["abc", "abc"],
  ["''abc''", "'abc'"],
])("the text %s is shown as %s", (text, shown) => {
  expect(JSON.parse(result({ "text/plain": JSON.stringify(text) }))).toHaveProperty("text", shown);
});

test("streams have a time, errors all three members", () => {
  const { timestamp, ...line } = JSON.parse(lineOf({ kind: "stdout", text: "é\n" })) as Record<string, unknown>;
  expect(line).toEqual({ type: "stdout", text: "é\n" });
  expect(timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$/);
  const error: KernelOutput = { kind: "error", name: "E", value: "", traceback: "a\nb" };
  expect(JSON.parse(lineOf(error))).toEqual({ type: "error", name: "E", value: "", traceback: "a\nb" });
  expect(lineOf({ kind: "count", count: 2 })).toBe('{"type":"number_of_executions","execution_count":2}\n');
});
