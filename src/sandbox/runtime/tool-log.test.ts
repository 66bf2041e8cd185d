import { expect, test } from "bun:test";
import { ftruncateSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { readToolLog } from "./tool-log.ts";

const folder = folderOfFile("tool-log");

test("a short log is read completely, and a missing one is empty", async () => {
  writeFileSync(join(folder, "short"), "one\ntwo\n");
  expect(await readToolLog(join(folder, "short"))).toBe("one\ntwo\n");
  expect(await readToolLog(join(folder, "none"))).toBe("");
});

test("only the end of a long log is read", async () => {
  const file = openSync(join(folder, "long"), "w");
  // A hole: longer than a string can be, so reading it whole would throw.
  ftruncateSync(file, 8 * 1024 ** 3);
  writeSync(file, "the end", 8 * 1024 ** 3);
  expect((await readToolLog(join(folder, "long"), 16)).replaceAll("\0", "")).toBe("the end");
});
