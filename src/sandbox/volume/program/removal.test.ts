/** Removal of volume content that sandboxes made hard to remove. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../../../base/testing/test-folder.ts";
import { CONTENT_REMOVE_BATCH, removeLeftovers } from "./removal.ts";

const root = folderOfTest("removal");

test("a process removes at most a batch of leftovers, and nothing else", async () => {
  const more = 5;
  for (let nth = 0; nth < CONTENT_REMOVE_BATCH + more; nth++) mkdirSync(join(root, `.sandlot-removed-${nth}`));
  writeFileSync(join(root, "mine"), "");
  await removeLeftovers(root);
  expect(readdirSync(root)).toHaveLength(more + 1);
  await removeLeftovers(root);
  expect(readdirSync(root)).toEqual(["mine"]);
});
