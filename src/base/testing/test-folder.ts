/** Folders for the files of tests, removed after the last test. */
import { afterAll, beforeEach } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** One for all tests of a file, or of the `describe` that asks for it. */
export function folderOfFile(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `sandlot-${name}-`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Empty at the start of each test. */
export function folderOfTest(name: string): string {
  const folder = folderOfFile(name);
  beforeEach(() => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
  });
  return folder;
}
