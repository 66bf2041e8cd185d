import { expect, test } from "bun:test";
import { LaterPart } from "./later-part.ts";

test("a part is loaded once, on first use, for all callers", async () => {
  const load = Promise.withResolvers<string>();
  let loads = 0;
  const part = new LaterPart(() => {
    loads += 1;
    return load.promise;
  });
  expect([loads, part.isNeeded]).toEqual([0, false]);
  const takers = [part.take(), part.take()];
  expect([loads, part.isNeeded]).toEqual([1, true]);
  load.resolve("it");
  expect(await Promise.all([...takers, part.take()])).toEqual(["it", "it", "it"]);
  expect(loads).toBe(1);
});

test("after a failed load the next caller tries again", async () => {
  const outcomes = [Promise.reject(new Error("no memory")), Promise.resolve("it")];
  const part = new LaterPart(() => outcomes.shift() ?? Promise.reject(new Error("asked too often")));
  const both = await Promise.allSettled([part.take(), part.take()]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(part.isNeeded).toBe(false);
  expect(await part.take()).toBe("it");
});
