import { expect, test } from "bun:test";
import { ftruncateSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { readToolLog } from "./tool-log.ts";

const folder = folderOfFile("tool-log");

test("a log is read whole when it is short, and is empty when there is none", async () => {
  writeFileSync(join(folder, "short"), "one\ntwo\n");
  expect(await readToolLog(join(folder, "short"))).toBe("one\ntwo\n");
  expect(await readToolLog(join(folder, "none"))).toBe("");
});

test("of a log as long as a sandbox can make it, only the end is read", async () => {
  const file = openSync(join(folder, "long"), "w");
  // A hole: longer than a string can be, so reading it whole would throw.
  ftruncateSync(file, 8 * 1024 ** 3);
  writeSync(file, "the end", 8 * 1024 ** 3);
  expect((await readToolLog(join(folder, "long"), 16)).replaceAll("\0", "")).toBe("the end");
});
