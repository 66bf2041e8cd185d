import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../system/command.ts";

const PROGRAM = join(import.meta.dir, "testing/concurrent-kernel-facts.ts");
const TMPFS = 0x01021994;
/** On a tmpfs, CRIU caches kernel facts by itself. */
const isKeptByCriu = statfsSync("/run").type === TMPFS;

test.skipIf(isKeptByCriu)("concurrent probes in one namespace can both remove their folders", async () => {
  const folders = [1, 2, 3].map(() => mkdtempSync("/var/tmp/sandlot-kernel-facts-"));
  expect(await run(["unshare", "--mount", process.execPath, PROGRAM, ...folders])).toBe("known\n\n");
  expect(folders.filter((folder) => existsSync(folder))).toEqual([]);
});
