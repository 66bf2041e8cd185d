/** Steps of a set-up, without what they make. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { makeSteps, setUp } from "./setup.ts";

const folder = folderOfFile("setup");

test("steps are made once, also in a cache folder that does not exist, as at a restore on an empty machine", async () => {
  const cache = join(folder, "new/cache");
  const made = join(cache, "made");
  const step = { title: "one", done: () => existsSync(made), make: async () => writeFileSync(made, "") };
  expect(await makeSteps(cache, [() => step], () => undefined)).toBe(true);
  expect(await makeSteps(cache, [() => step], () => undefined)).toBe(false);
});

test("a cache folder below a folder that only root can enter is refused before anything is made", async () => {
  const closed = join(folder, "closed");
  mkdirSync(closed, { mode: 0o700 });
  const cacheFolder = join(closed, "cache");
  const refused = setUp({ cacheFolder, debianMirror: undefined, report: () => undefined });
  await expect(refused).rejects.toThrow(`FIX: chmod o+x ${closed}, or set SANDLOT_CACHE`);
  expect(existsSync(cacheFolder)).toBe(false);
});
