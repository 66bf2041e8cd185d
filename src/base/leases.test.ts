import { expect, test } from "bun:test";
import { Leases } from "./leases.ts";

test("a name is held until its last holder disposes it", () => {
  const holds = new Leases();
  const first = holds.hold("a");
  const second = holds.hold("a");
  first[Symbol.dispose]();
  expect(seenIn(holds)).toEqual(["a"]);
  second[Symbol.dispose]();
  expect(seenIn(holds)).toEqual([]);
});

test("a watch has every name that was held during it", () => {
  const holds = new Leases();
  const before = holds.hold("before");
  const watch = holds.watch();
  before[Symbol.dispose]();
  holds.hold("meanwhile")[Symbol.dispose]();
  expect([...watch.seen]).toEqual(["before", "meanwhile"]);
  watch[Symbol.dispose]();
  holds.hold("after");
  expect([...watch.seen]).toEqual(["before", "meanwhile"]);
});

function seenIn(holds: Leases): string[] {
  using watch = holds.watch();
  return [...watch.seen];
}
