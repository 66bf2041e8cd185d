import { expect, test } from "bun:test";
import { IdMappings, isMappedAlready, tableOf } from "./id-mapping.ts";

const SHARED = 1_900_000_000;
const OWN = 1_900_065_536;

test("plain ids map to the range, and one more to the machine's root", () => {
  expect(tableOf("plain", OWN)).toEqual([
    { inside: 0, outside: OWN, count: 65_536 },
    { inside: 65_536, outside: 0, count: 1 },
  ]);
});

test("shifted ids on the disk map to the range, and the machine's root stays", () => {
  expect(tableOf("shifted", OWN)).toEqual([
    { inside: SHARED, outside: OWN, count: 65_536 },
    { inside: 0, outside: 0, count: 1 },
  ]);
});

test("only shifted ids need no mapping, in their own range or without mapping support", () => {
  expect([SHARED, undefined, OWN].map((first) => isMappedAlready("shifted", first))).toEqual([true, true, false]);
  expect([SHARED, undefined, OWN].map((first) => isMappedAlready("plain", first))).toEqual([false, false, false]);
});

test("without mapping support, the error has the remedy", () => {
  const none = new IdMappings(undefined);
  expect(() => none.of("plain")).toThrow("FIX: run it on Linux 5.19 or later");
});
