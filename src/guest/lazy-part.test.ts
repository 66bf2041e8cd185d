import { expect, test } from "bun:test";
import { LazyPart } from "./lazy-part.ts";

test("a part is loaded once, on first use, for all callers", async () => {
  const load = Promise.withResolvers<string>();
  let loads = 0;
  const part = new LazyPart(() => {
    loads += 1;
    return load.promise;
  });
  expect([loads, part.isRequested]).toEqual([0, false]);
  const takers = [part.load(), part.load()];
  expect([loads, part.isRequested]).toEqual([1, true]);
  load.resolve("it");
  expect(await Promise.all([...takers, part.load()])).toEqual(["it", "it", "it"]);
  expect(loads).toBe(1);
});

test("after a failed load the next caller tries again", async () => {
  const outcomes = [Promise.reject(new Error("no memory")), Promise.resolve("it")];
  const part = new LazyPart(() => outcomes.shift() ?? Promise.reject(new Error("asked too often")));
  const both = await Promise.allSettled([part.load(), part.load()]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(part.isRequested).toBe(false);
  expect(await part.load()).toBe("it");
});
