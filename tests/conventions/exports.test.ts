/** Every export is imported by another file, and not by its test alone. */
import { describe, expect, test } from "bun:test";
import { exportsForTestsOnly, unusedExports } from "./export-rules.ts";
import { benchFiles, sourceFiles, testFiles } from "./source-files.ts";

const files = [...sourceFiles(), ...benchFiles(), ...testFiles()];

test("every export is imported by another file", () => {
  expect(unusedExports(files)).toEqual([]);
});

test("exports used only by tests are in test code", () => {
  expect(exportsForTestsOnly(files)).toEqual([]);
});

describe("the rules find", () => {
  const at = (path: string, text: string) => ({ path, text });

  test("each form of unused export", () => {
    const forms = [
      "export const a = 1;",
      "export async function b() {}",
      "export interface C {}",
      "export type D = 1;",
      "export abstract class E {}",
      "export function* f() {}",
      "const g = 1;\nexport { g as h };",
    ];
    const found = unusedExports([at("src/x.ts", forms.join("\n"))]);
    expect(found).toEqual(["a", "b", "C", "D", "E", "f", "h"].map((name) => `src/x.ts: ${name}`));
  });

  test("no export that is imported, in any form", () => {
    const used = at(
      "src/room/x.ts",
      "export const a = 1;\nexport type B = 1;\nexport const c = 1;\nexport const d = 1;",
    );
    const users = [
      at("src/one.ts", 'import { a as renamed, type B } from "./room/x.ts";'),
      at("src/two.ts", 'import * as x from "./room/x.ts";\nx.c();'),
      at("src/room/three.ts", 'let y: import("./x.ts").d;'),
    ];
    expect(unusedExports([used, ...users])).toEqual([]);
    expect(unusedExports([used, at("src/all.ts", 'import * as x from "./room/x.ts";\nlook(x);')])).toEqual([]);
  });

  test("an export whose namesake elsewhere is imported", () => {
    const found = unusedExports([
      at("src/x.ts", "export const a = 1;"),
      at("src/y.ts", "export const a = 1;"),
      at("src/z.ts", 'import { a } from "./y.ts";'),
    ]);
    expect(found).toEqual(["src/x.ts: a"]);
  });

  test("exports that only tests use", () => {
    const test = at("src/x.test.ts", 'import { dead, alive } from "./x.ts";');
    const found = exportsForTestsOnly([
      at("src/x.ts", "export const dead = 1;\nexport const alive = 1;\nalive;"),
      test,
    ]);
    expect(found).toEqual(["src/x.ts: dead"]);
  });
});
