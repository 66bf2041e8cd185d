/** What a killed CRIU leaves in the machine's world-writable folder. */
import { expect, test } from "bun:test";
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RESTORE_MS } from "../../limits.ts";
import { removeRestoreFolders } from "./criu-leftovers.ts";

test("only unused leftovers are removed, and no files that look similar", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-restore-folders-"));
  const long = new Date(Date.now() - 2 * RESTORE_MS - 1_000);
  const at = (name: string) => join(folder, `.criu.mntns.${name}`);
  try {
    for (const name of ["old001", "young1", "full01", "theirs", "toolong7"]) mkdirSync(at(name));
    writeFileSync(join(at("full01"), "file"), "");
    chownSync(at("theirs"), 12_345, 12_345);
    writeFileSync(at("file01"), "");
    mkdirSync(join(folder, "elsewhere"));
    symlinkSync(join(folder, "elsewhere"), at("link01"));
    for (const name of ["old001", "full01", "theirs", "toolong7", "file01"]) utimesSync(at(name), long, long);
    utimesSync(join(folder, "elsewhere"), long, long);
    const before = readdirSync(folder);
    removeRestoreFolders(folder);
    expect(readdirSync(folder)).toEqual(before.filter((name) => !name.endsWith("old001")));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
