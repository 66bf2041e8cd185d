/** The build queue: bounded concurrency, and one team's long queue does not block other teams. */
import { expect, test } from "bun:test";
import { BuildQueue } from "./build-queue.ts";

/** Adds builds such as `a1` of team `a`, and says which are under way. */
function queueOf(atOnce: number, share = atOnce) {
  const queue = new BuildQueue(atOnce);
  const underWay = new Map<string, () => void>();
  const begun: string[] = [];
  return {
    queue,
    begun,
    add: (...ids: string[]) =>
      ids.map((id) =>
        queue.add(id, {
          team: id.slice(0, 1),
          share,
          work: () => {
            begun.push(id);
            return new Promise((end) => underWay.set(id, end));
          },
        }),
      ),
    async end(id: string): Promise<void> {
      underWay.get(id)?.();
      underWay.delete(id);
      await Bun.sleep(0);
    },
  };
}

test("at most the limit of builds run, in their order of arrival", async () => {
  const { queue, add, begun, end } = queueOf(2);
  expect(add("a1", "a2", "a3", "a4")).toEqual([true, true, false, false]);
  expect([begun, queue.waitingOf("a")]).toEqual([["a1", "a2"], 2]);
  await end("a2");
  expect(begun).toEqual(["a1", "a2", "a3"]);
  await end("a1");
  await end("a3");
  await end("a4");
  expect(queue.waitingOf("a")).toBe(0);
  expect(add("a5")).toEqual([true]);
});

test.each([
  [1, ["a1", "b1", "a2"], ["a1", "b1", "a2", "b2"]],
  [2, ["a1", "a2", "b1"], ["a1", "a2", "b1", "a3", "b2"]],
])("with %i at once, teams take turns, however long a team's queue is", async (atOnce, ends, expected) => {
  const { add, begun, end } = queueOf(atOnce);
  add("a1", "a2", "a3", "a4", "a5");
  add("b1", "b2");
  for (const id of ends) await end(id);
  expect(begun).toEqual(expected);
});

test("a removed build never starts", async () => {
  const { queue, add, begun, end } = queueOf(1);
  add("a1", "a2", "b1");
  expect([queue.remove("a2"), queue.remove("a2"), queue.remove("a1")]).toEqual([true, false, false]);
  await end("a1");
  await end("b1");
  expect(begun).toEqual(["a1", "b1"]);
});

test("a team runs no more builds than its share, even if slots are free for the next team", async () => {
  const { queue, add, begun, end } = queueOf(3, 2);
  expect(add("a1", "a2", "a3", "a4")).toEqual([true, true, false, false]);
  expect(add("b1")).toEqual([true]);
  await end("b1");
  expect([begun, queue.waitingOf("a")]).toEqual([["a1", "a2", "b1"], 2]);
  await end("a2");
  expect(begun).toEqual(["a1", "a2", "b1", "a3"]);
});
