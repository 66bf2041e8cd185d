import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { remove } from "./tree.ts";

const ROUNDS = 100;
const root = mkdtempSync(`${tmpdir()}/sandlot-tree-`);
afterAll(() => rmSync(root, { recursive: true }));

// Seen to fail: what had gone between two looks at it "could not be removed: ENOENT".
test("that somebody else removes it in the same moment is no error", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const top = `${root}/${round}`;
    mkdirSync(`${top}/a/b/c`, { recursive: true });
    const paths = [top, `${top}/a`, `${top}/a/b`, `${top}/a/b/c`, `${top}/a/b/c/`];
    const outcomes = await Promise.allSettled(paths.map((path) => remove(path)));
    expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
  }
});
