import { expect, test } from "bun:test";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { FETCH_AUTHORITIES_MAX_BYTES, machineAuthorities } from "./machine-authorities.ts";

const folder = folderOfFile("authorities");
const [none, first, second] = ["none", "first", "second"].map((name) => join(folder, name)) as [string, string, string];

test("the first existing bundle is used, with its current content", async () => {
  writeFileSync(first, "1");
  writeFileSync(second, "2");
  expect(await machineAuthorities([none])).toBeUndefined();
  expect(await machineAuthorities([none, first, second])).toBe("1");
  writeFileSync(first, "changed");
  expect(await machineAuthorities([none, first, second])).toBe("changed");
});

test("a file that is not a bundle is ignored", async () => {
  truncateSync(second, FETCH_AUTHORITIES_MAX_BYTES + 1);
  expect(await machineAuthorities([second])).toBeUndefined();
  expect(await machineAuthorities([folder])).toBeUndefined();
});
