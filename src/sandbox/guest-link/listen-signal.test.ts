/** The guest's signal by touching a file, and files that cannot be watched. */
import { beforeEach, expect, test } from "bun:test";
import { utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { ListenSignal } from "./listen-signal.ts";

const folder = folderOfFile("sign");
const path = join(folder, "file");
const LONG_MS = 60_000;

beforeEach(() => writeFileSync(path, "what is in it"));

test("a touched file is a signal at once, and stays one", async () => {
  using sign = new ListenSignal(path);
  expect(sign.isWatched).toBe(true);
  setTimeout(() => utimesSync(path, 1, 2), 20);
  expect(await sign.within(LONG_MS)).toBe(true);
  expect(await sign.within(0)).toBe(true);
});

test("a file touched before the wait is a signal", async () => {
  using sign = new ListenSignal(path);
  utimesSync(path, 1, 2);
  expect(await sign.within(LONG_MS)).toBe(true);
});

test("a read, and a touch before the watch, are not signals", async () => {
  utimesSync(path, 1, 2);
  using sign = new ListenSignal(path);
  await Bun.file(path).text();
  expect(await sign.within(50)).toBe(false);
});

test("a missing file gives no signal", () => {
  using sign = new ListenSignal(join(folder, "none"));
  expect(sign.isWatched).toBe(false);
});
