/** Id mappings are kept for the next mount, but not forever. */
import { expect, test } from "bun:test";
import { readlinkSync } from "node:fs";
import { ID_COUNT } from "../id-range.ts";
import { ID_TABLES_KEPT, IdMappings } from "./id-mapping.ts";

/** Of ids that no server gives away. */
const FIRST = 3_000_000_000;

const tableOf = (range: number) =>
  readlinkSync(`/proc/self/fd/${new IdMappings(FIRST + range * ID_COUNT).of("plain")}`);

test("mounts of one range share a mapping, another range has another", () => {
  const first = tableOf(0);
  expect(first).toStartWith("user:");
  expect(tableOf(1)).not.toBe(first);
  expect(tableOf(0)).toBe(first);
});

test("a bounded number of mappings is kept, the most recently used", () => {
  const used = tableOf(0);
  const before = openNamespaces();
  for (let range = 1; range <= 2 * ID_TABLES_KEPT; range++) {
    tableOf(range);
    expect(tableOf(0)).toBe(used);
  }
  expect(openNamespaces() - before).toBeLessThanOrEqual(ID_TABLES_KEPT);
});

function openNamespaces(): number {
  let open = 0;
  for (let fd = 0; fd < 4 * ID_TABLES_KEPT; fd++) {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`).startsWith("user:")) open++;
    } catch {
      // Not open.
    }
  }
  return open;
}
