import { describe, expect, test } from "bun:test";
import { asciiLine, membersOf } from "./json-text.ts";

const members = (json: string) => membersOf(`{"data":${json}}`, "data");

describe("members of an object", () => {
  test.each<[string, Record<string, string>]>([
    ["{}", {}],
    [" { } ", {}],
    ['{"a":1.0}', { a: "1.0" }],
    ['{"a": 1e2 , "b" : [1.0, {"c": "}"}], "d": null}', { a: "1e2", b: '[1.0,{"c":"}"}]', d: "null" }],
    ['{"a\\"b": "x\\\\", "c": "\\\\\\"}"}', { 'a"b': '"x\\\\"', c: '"\\\\\\"}"' }],
    ['{"e": {}, "f": [], "": ""}', { e: "{}", f: "[]", "": '""' }],
    ['{"a": "é, \u2028 {"}', { a: '"é, \u2028 {"' }],
    ['{"a": 12345678901234567890}', { a: "12345678901234567890" }],
    ["[1]", {}],
    ["null", {}],
    ['"{"', {}],
  ])("of %s", (json, expected) => {
    expect(members(json)).toEqual(expected);
  });

  test("equal those of JSON.parse", () => {
    const value = { "{": "}", "\\": ['"', { "\\\\": "\\" }], " ": { " ": [[], {}, [[{}]]] }, "\u2029": "\ud83d" };
    for (const json of [JSON.stringify(value), JSON.stringify(value, null, 2)]) {
      const found = Object.entries(members(json)).map(([name, text]) => [name, JSON.parse(text) as unknown]);
      expect(Object.fromEntries(found)).toEqual(value);
    }
  });

  test("of invalid JSON are rejected", () => {
    for (const text of ["", "{", '{"a"}', '{"a":1', "{a:1}"]) expect(() => members(text)).toThrow();
  });

  test("are none without the object", () => {
    for (const text of ["{}", "null", '{"data":null}']) expect(membersOf(text, "data")).toEqual({});
  });
});

test("a line is ASCII, with the same value", () => {
  const value = { a: "é\u0085\u2028\u2029😀\u007f\n\r", é: [1] };
  for (const json of [JSON.stringify(value), JSON.stringify(value, null, 1)]) {
    const line = asciiLine(json);
    expect(line).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(line)).toEqual(value);
  }
});
