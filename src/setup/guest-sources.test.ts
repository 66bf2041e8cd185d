import { expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  const project = copiedProject();
  try {
    const before = guestSources(project).files.length;
    writeFileSync(join(project, "src/contract/runtime/added.ts"), "export const ADDED = 1;");
    expect(guestSources(project).files.length).toBe(before);
    writeFileSync(join(project, "src/guest/limits.ts"), 'export * from "../contract/runtime/added.ts";');
    expect(guestSources(project).files).toContain(join(project, "src/contract/runtime/added.ts"));
  } finally {
    rmSync(join(project, ".."), { recursive: true });
  }
});

test("a package counts with the version that is installed in the folder or above it", () => {
  const project = copiedProject();
  const install = (folder: string, name: string, version: string) => {
    mkdirSync(join(folder, "node_modules", name), { recursive: true });
    writeFileSync(join(folder, "node_modules", name, "package.json"), JSON.stringify({ version }));
  };
  try {
    rmSync(join(project, "node_modules"));
    for (const name of ["@bufbuild/protobuf", "tar-stream"]) install(project, name, "1.0.0");
    expect(() => guestSources(project)).toThrow("imports @connectrpc/connect, which is not installed");
    install(join(project, ".."), "@connectrpc/connect", "3.0.0");
    expect(guestSources(project).packages).toEqual([
      "@bufbuild/protobuf@1.0.0",
      "@connectrpc/connect@3.0.0",
      "tar-stream@1.0.0",
    ]);
  } finally {
    rmSync(join(project, ".."), { recursive: true });
  }
});

function copiedProject(): string {
  const project = join(mkdtempSync(join(tmpdir(), "sandlot-guest-sources-")), "project");
  for (const name of ["src/guest", "src/contract", "src/base"]) {
    cpSync(join(PROJECT, name), join(project, name), { recursive: true });
  }
  symlinkSync(join(PROJECT, "node_modules"), join(project, "node_modules"));
  return project;
}
