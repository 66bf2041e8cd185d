import { expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../../base/testing/test-folder.ts";
import { image, nested, number } from "../testing/criu-image.ts";
import { wipeForCopies } from "./image-wiping.ts";

const PAGE = 4;
const WIPE_ON_FORK = 2 ** 18;
const DONT_DUMP = 2 ** 16;
const PRESENT = 4;
const IN_PARENT = 1;

const images = folderOfTest("wiping");

const mapping = (start: number, end: number, advice?: number) =>
  nested(14, number(1, start), number(2, end), number(7, 513), ...(advice === undefined ? [] : [number(9, advice)]));
const run = (address: number, pages: number, flags = PRESENT) =>
  Buffer.concat([number(1, address), number(2, 0), number(4, flags), number(5, pages)]);
const runBefore = (address: number, pages: number) => Buffer.concat([number(1, address), number(2, pages)]);

/** One process, with these mappings and these runs of pages in a file of pages that are "AAAA", "BBBB" and so on. */
function written(pid: number, pagesId: number, mappings: Buffer[], runs: Buffer[], pages: string): void {
  image(images, `mm-${pid}.img`, [Buffer.concat([number(1, 4096), ...mappings, number(15, 1)])]);
  image(images, `pagemap-${pid}.img`, [number(1, pagesId), ...runs]);
  writeFileSync(join(images, `pages-${pagesId}.img`), [...pages].map((page) => page.repeat(PAGE)).join(""));
}

/** The pages of the image, with "." for a wiped one. */
async function afterWiping(pagesId: number): Promise<string> {
  await wipeForCopies(images, PAGE);
  const content = readFileSync(join(images, `pages-${pagesId}.img`));
  expect(content.length % PAGE).toBe(0);
  const pages = Array.from({ length: content.length / PAGE }, (_, at) => content.subarray(at * PAGE, (at + 1) * PAGE));
  return pages.map((page) => (page.every((byte) => byte === 0) ? "." : page.toString().charAt(0))).join("");
}

test("only pages marked MADV_WIPEONFORK are wiped", async () => {
  const mappings = [mapping(0, 8), mapping(40, 48, WIPE_ON_FORK + DONT_DUMP), mapping(80, 88, DONT_DUMP)];
  written(7, 3, mappings, [run(0, 2), run(40, 2), run(80, 2)], "ABCDEF");
  expect(await afterWiping(3)).toBe("AB..EF");
});

test("a run of pages across several mappings is wiped in part", async () => {
  const mappings = [mapping(8, 12), mapping(12, 20, WIPE_ON_FORK), mapping(20, 24), mapping(24, 28, WIPE_ON_FORK)];
  written(1, 1, mappings, [run(8, 6)], "ABCDEF");
  expect(await afterWiping(1)).toBe("A..D.F");
});

test("pages missing from the image are skipped; a mapping may be partly present", async () => {
  const mappings = [mapping(0, 40, WIPE_ON_FORK), mapping(40, 80)];
  written(1, 1, mappings, [run(0, 1), run(4, 5, IN_PARENT), run(32, 2), run(60, 2)], "ABCDE");
  expect(await afterWiping(1)).toBe("...DE");
});

test("images of earlier versions of CRIU, with another page count, are wiped", async () => {
  written(1, 1, [mapping(8, 12, WIPE_ON_FORK)], [runBefore(0, 2), runBefore(8, 1), runBefore(40, 1)], "ABCD");
  expect(await afterWiping(1)).toBe("AB.D");
});

test("high addresses and several processes are wiped", async () => {
  const high = 2 ** 47 - 8192;
  written(1, 2, [mapping(high, high + PAGE, WIPE_ON_FORK)], [run(high, 1)], "A");
  written(2, 1, [mapping(0, 8)], [run(0, 2)], "BC");
  written(3, 9, [mapping(0, 8, WIPE_ON_FORK)], [run(0, 2)], "DE");
  expect(await afterWiping(2)).toBe(".");
  expect(await afterWiping(1)).toBe("BC");
  expect(await afterWiping(9)).toBe("..");
});

test("an image without its pages is an error", async () => {
  written(1, 1, [mapping(0, 8, WIPE_ON_FORK)], [run(0, 2)], "AB");
  rmSync(join(images, "pages-1.img"));
  await expect(wipeForCopies(images, PAGE)).rejects.toThrow("pages-1.img");
});
