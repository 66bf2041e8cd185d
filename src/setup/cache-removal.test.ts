import { beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { Toolbox } from "../system/toolbox.ts";
import { removeCache } from "./cache-removal.ts";

const GUEST = "0123456789abcdef";
const cache = join(folderOfFile("cache-removal"), "cache");
const { toolFolder, runscFolder, resticFolder } = new Toolbox(cache);

function write(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
}

beforeEach(() => {
  rmSync(cache, { recursive: true, force: true });
  for (const folder of [toolFolder, `${toolFolder}.unfinished`, runscFolder, resticFolder]) write(join(folder, "file"));
  for (const name of [
    "lock",
    "restic-cache/a",
    "restore.data/a",
    `bun-${Bun.version}-0123456789abcdef`,
    `guests/${GUEST}/guest`,
    "images/base-1/etc/passwd",
    "images/base-1.chosen",
  ]) {
    write(join(cache, name));
  }
});

test("a cache folder with nothing else is removed, and a missing one is no error", async () => {
  expect(await removeCache(cache)).toBeUndefined();
  expect(existsSync(cache)).toBe(false);
  expect(await removeCache(cache)).toBeUndefined();
});

test("files that are not Sandlot's stay, and are named", async () => {
  for (const name of ["www/index.html", "tools", "my-images/a", "lock.txt"]) write(join(cache, name));
  const output = await removeCache(cache);
  const left = ["lock.txt", "my-images", "tools", "www"];
  expect(readdirSync(cache).sort()).toEqual(left);
  for (const name of left) expect(output).toContain(name);
});

test.each([`guests/in-use/${GUEST}.abcd`, "images/.in-use/base-1.abcd"])(
  "a cache folder with the mark %s of another server stays whole",
  async (mark) => {
    write(join(cache, mark));
    expect(await removeCache(cache)).toContain("other servers use it: abcd");
    expect(existsSync(join(toolFolder, "file"))).toBe(true);
    expect(existsSync(join(cache, "images/base-1/etc/passwd"))).toBe(true);
  },
);
