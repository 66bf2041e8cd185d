import { expect, test } from "bun:test";
import { Semaphore } from "./semaphore.ts";

/** Visitors admitted by the gate, in order; each leaves on request. */
class Visitors {
  readonly order: string[] = [];
  readonly #places = new Map<string, Disposable>();

  constructor(readonly gate: Semaphore) {}

  async come(name: string, owner?: string): Promise<void> {
    this.#places.set(name, await this.gate.acquire(owner));
    this.order.push(name);
  }

  async leave(name: string): Promise<void> {
    this.#places.get(name)?.[Symbol.dispose]();
    await Promise.resolve();
    await Promise.resolve();
  }
}

test("at most the given number are inside at once, and others enter in order", async () => {
  const visitors = new Visitors(new Semaphore(2));
  const all = Promise.all(["a", "b", "c", "d"].map((name) => visitors.come(name)));
  await visitors.leave("nobody");
  expect(visitors.order).toEqual(["a", "b"]);
  await visitors.leave("b");
  expect(visitors.order).toEqual(["a", "b", "c"]);
  await visitors.leave("a");
  await all;
  expect(visitors.order).toEqual(["a", "b", "c", "d"]);
  for (const name of ["c", "d"]) await visitors.leave(name);
  await Promise.all(["e", "f"].map((name) => visitors.come(name)));
  expect(visitors.order).toEqual(["a", "b", "c", "d", "e", "f"]);
});

// Guards against one long queue that blocks all keys.
test("a long queue of one key does not delay other keys", async () => {
  const visitors = new Visitors(new Semaphore(2));
  const line = Array.from({ length: 50 }, (_, at) => visitors.come(`many ${at}`, "many"));
  const other = visitors.come("other", "other");
  await visitors.leave("nobody");
  await visitors.leave("many 0");
  expect(visitors.order).toEqual(["many 0", "many 1", "other"]);
  await visitors.leave("other");
  await other;
  expect(visitors.order.at(-1)).toBe("many 2");
  for (let at = 1; at < 50; at++) await visitors.leave(`many ${at}`);
  await Promise.all(line);
});
