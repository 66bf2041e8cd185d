import { expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { Fault } from "../contract/fault.ts";
import { idsNotedIn, makeFolder, notedIds, takeAllocation } from "./allocation.ts";
import { Slots } from "./network/slots.ts";

const folder = folderOfFile("places");

test("the server after a killed one finds all used id ranges, also those without a record", () => {
  makeFolder(join(folder, "one"), { first: 1_900_065_536 });
  mkdirSync(join(folder, "of-before"));
  expect(["one", "of-before", "gone"].map((name) => notedIds(join(folder, name)))).toEqual([
    1_900_065_536,
    undefined,
    undefined,
  ]);
  expect(idsNotedIn(folder)).toEqual([1_900_065_536]);
});

test("without a slot the id range is returned", async () => {
  const free: number[] = [];
  const ranges = { take: () => ({ first: 7 }), free: ({ first }: { first: number }) => void free.push(first) };
  const network = { untilFreed: async () => undefined };
  expect(await takeAllocation(ranges, network, () => 5)).toEqual({ slot: 5, ids: { first: 7 } });
  expect(free).toEqual([]);
  const none = () => {
    throw new Fault(503, "all network slots are in use");
  };
  await expect(takeAllocation(ranges, network, none, 0)).rejects.toThrow("all network slots are in use");
  expect(free).toEqual([7]);
});

// Guards against 503 for a create right after a pause.
test("with all slots in use, a create waits for the next free one", async () => {
  const slots = new Slots();
  const all = Array.from({ length: slots.freeCount }, () => slots.take());
  const ranges = { take: () => ({ first: 7 }), free: () => undefined };
  const waiting = [1, 2].map(() => takeAllocation(ranges, slots, () => slots.take(), 600_000));
  for (const slot of all.slice(0, 2)) slots.free(slot);
  expect((await Promise.all(waiting)).map(({ slot }) => slot)).toEqual(all.slice(0, 2));
});
