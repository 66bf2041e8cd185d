import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { idsNotedIn, makeFolder, notedIds, takePlaces } from "./places.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-places-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("whoever comes after a killed server finds which ids were taken, also before there is a record", () => {
  makeFolder(join(folder, "one"), { first: 1_900_065_536 });
  mkdirSync(join(folder, "of-before"));
  expect(["one", "of-before", "gone"].map((name) => notedIds(join(folder, name)))).toEqual([
    1_900_065_536,
    undefined,
    undefined,
  ]);
  expect(idsNotedIn(folder)).toEqual([1_900_065_536]);
});

test("without a slot the range is given back", () => {
  const free: number[] = [];
  const ranges = { take: () => ({ first: 7 }), free: ({ first }: { first: number }) => void free.push(first) };
  expect(takePlaces(ranges, () => 5)).toEqual({ slot: 5, ids: { first: 7 } });
  expect(free).toEqual([]);
  const none = () => {
    throw new Fault(503, "all network slots are in use");
  };
  expect(() => takePlaces(ranges, none)).toThrow("all network slots are in use");
  expect(free).toEqual([7]);
});
