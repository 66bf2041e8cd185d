import { expect, test } from "bun:test";
import { IdMappings } from "./id-mapping.ts";

const log = { write: () => undefined };

test("a table of ids is made once for each range, however many ask at once", async () => {
  const made: number[] = [];
  const mappings = new IdMappings(async (first) => made.push(first), log);
  expect(await Promise.all([mappings.of(100), mappings.of(100), mappings.of(200)])).toEqual([1, 1, 2]);
  expect(await mappings.of(200)).toBe(2);
  expect(made).toEqual([100, 200]);
});

test("one that could not be made is tried again for the next who asks", async () => {
  const answers = [Promise.reject(new Error("no more processes")), Promise.resolve(7)];
  const mappings = new IdMappings(() => answers.shift() ?? Promise.resolve(0), log);
  expect(await mappings.of(100)).toBeUndefined();
  expect(await mappings.of(100)).toBe(7);
});
