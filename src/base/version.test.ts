import { expect, test } from "bun:test";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "./testing/test-folder.ts";

const folder = folderOfFile("version");

function install(version: string): void {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version }));
}

test("a program reports the version that it was started with while an upgrade replaces its package", async () => {
  install("1.2.3");
  const installed = join(folder, "src/base/version.ts");
  cpSync(join(import.meta.dir, "version.ts"), installed);
  const { version } = (await import(installed)) as typeof import("./version.ts");
  install("1.3.0");
  expect(version()).toBe("1.2.3");
});
