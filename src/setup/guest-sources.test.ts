import { expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { GUEST_PROGRAM, guestSources } from "./guest-sources.ts";

const PROJECT = join(import.meta.dir, "../..");

test("the guest's sources are its program and its imports, and nothing else", () => {
  const { files, packages } = guestSources(PROJECT);
  const names = files.map((file) => relative(PROJECT, file));
  expect(names).toContain(GUEST_PROGRAM);
  expect(names).toContain("src/guest/limits.ts");
  expect(names).toContain("src/contract/runtime/wire/process/process_pb.ts");
  expect(names.filter((name) => !/^src\/(?:guest|contract|base)\//.test(name))).toEqual([]);
  expect(names.filter((name) => /\.test\.ts$|\/testing\/|\/management\//.test(name))).toEqual([]);
  expect(packages.map((name) => name.replace(/@[^@]*$/, ""))).toEqual([
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "tar-stream",
  ]);
});

test("an added import is found", () => {
  const project = mkdtempSync(join(tmpdir(), "sandlot-guest-sources-"));
  try {
    for (const name of ["src/guest", "src/contract", "src/base", "package-lock.json"]) {
      cpSync(join(PROJECT, name), join(project, name), { recursive: true });
    }
    const before = guestSources(project).files.length;
    writeFileSync(join(project, "src/contract/runtime/added.ts"), "export const ADDED = 1;");
    expect(guestSources(project).files.length).toBe(before);
    writeFileSync(join(project, "src/guest/limits.ts"), 'export * from "../contract/runtime/added.ts";');
    expect(guestSources(project).files).toContain(join(project, "src/contract/runtime/added.ts"));
  } finally {
    rmSync(project, { recursive: true });
  }
});
