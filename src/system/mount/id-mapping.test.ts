import { expect, test } from "bun:test";
import { IdMappings, isMappedAlready, tableOf } from "./id-mapping.ts";

const SHARED = 1_900_000_000;
const OWN = 1_900_065_536;

test("plain ids become those of the range, and one more is the machine's root", () => {
  expect(tableOf("plain", OWN)).toEqual([
    { inside: 0, outside: OWN, count: 65_536 },
    { inside: 65_536, outside: 0, count: 1 },
  ]);
});

test("ids that were shifted on the disk become those of the range, and the machine's root stays", () => {
  expect(tableOf("shifted", OWN)).toEqual([
    { inside: SHARED, outside: OWN, count: 65_536 },
    { inside: 0, outside: 0, count: 1 },
  ]);
});

test("only what was shifted is right as it is, in the range that it was shifted to or where nothing is mapped", () => {
  expect([SHARED, undefined, OWN].map((first) => isMappedAlready("shifted", first))).toEqual([true, true, false]);
  expect([SHARED, undefined, OWN].map((first) => isMappedAlready("plain", first))).toEqual([false, false, false]);
});

test("where nothing can be mapped, the fault says what to do", () => {
  const none = new IdMappings(undefined);
  expect(() => none.of("plain")).toThrow("FIX: run it on Linux 5.19 or later");
});
