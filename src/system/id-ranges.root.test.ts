/** The supply of id ranges, beside the run folders of all servers. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { HOST_ID_FIRST, ID_COUNT, RELAY_ID_FIRST, SHARED_IDS } from "./id-range.ts";
import { BLOCK_COUNT, IdRanges } from "./id-ranges.ts";

const ROOT = "/run/sandlot";
/** Of so many letters as the tag of a server has, or the others would not look at it. */
const [one, other] = ["~ids", "~idt"].map((tag) => ({ tag, runFolder: join(ROOT, tag) }));
if (one === undefined || other === undefined) throw new Error("two servers");
const remove = () => [one, other].map(({ runFolder }) => rmSync(runFolder, { recursive: true, force: true }));

beforeEach(() => {
  remove();
  for (const { runFolder } of [one, other]) mkdirSync(runFolder, { recursive: true });
});
afterAll(remove);

function takeFrom(ranges: IdRanges, count: number): number[] {
  return Array.from({ length: count }, () => ranges.take().first);
}

test("sandboxes and relays of all servers have disjoint ids", () => {
  const taken = [new IdRanges(one, true), new IdRanges(other, true)].flatMap((ranges) => takeFrom(ranges, 600));
  expect(new Set(taken).size).toBe(1200);
  expect(taken.every((first) => (first - HOST_ID_FIRST) % ID_COUNT === 0)).toBe(true);
  expect(Math.min(...taken)).toBeGreaterThan(HOST_ID_FIRST);
  expect(HOST_ID_FIRST).toBe(RELAY_ID_FIRST + ID_COUNT);
});

test("the last range fits the kernel's ids", () => {
  expect(HOST_ID_FIRST + ID_COUNT + BLOCK_COUNT * 256 * ID_COUNT).toBeLessThan(0xffff_ffff);
});

test("a freed range is reused last, and before a new block is taken", () => {
  const ranges = new IdRanges(one, true);
  const first = ranges.take();
  ranges.free(first);
  expect(takeFrom(ranges, 20)).not.toContain(first.first);
  expect(takeFrom(ranges, 236)).toContain(first.first);
  expect(JSON.parse(readFileSync(join(one.runFolder, "id-blocks.json"), "utf8"))).toHaveLength(1);
});

test("the next server has the same supply, without ranges in use", () => {
  const before = takeFrom(new IdRanges(one, true), 200);
  const next = new IdRanges(one, true);
  for (const first of before) next.adopt(first);
  const after = takeFrom(next, 56);
  expect(new Set([...before, ...after]).size).toBe(256);
  expect(readdirSync(one.runFolder)).toEqual(["id-blocks.json"]);
});

test("a range that is freed twice is given out once", () => {
  const ranges = new IdRanges(one, true);
  const range = ranges.take();
  for (let times = 0; times < 2; times++) ranges.free(range);
  expect(new Set(takeFrom(ranges, 300)).size).toBe(300);
});

test("without id mapping all sandboxes share one range, and no block is taken", () => {
  const ranges = new IdRanges(one, false);
  const shared = [ranges.take(), ranges.take()];
  expect(shared).toEqual([SHARED_IDS, SHARED_IDS]);
  for (const each of shared) ranges.free(each);
  expect(existsSync(join(one.runFolder, "id-blocks.json"))).toBe(false);
});
