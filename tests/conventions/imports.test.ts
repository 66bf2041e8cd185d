/** Import directions between modules, and the form of source files. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { breaches, fileCycles, isTestCode, moduleCycles, type Packages } from "./import-rules.ts";
import { benchFiles, importsOf, PROJECT, readText, type SourceFile, sourceFiles, testFiles } from "./source-files.ts";

/** A file states its purpose within this many lines. */
const PURPOSE_WITHIN_LINES = 12;
const EMPTY_NAMES = /^(?:utils?|helpers?|types?|common|misc|managers?)$/;

const files = sourceFiles();
const manifest = JSON.parse(readText("package.json")) as Record<string, Record<string, string>>;
const packages: Packages = {
  dependencies: new Set(Object.keys(manifest.dependencies ?? {})),
  devDependencies: new Set(Object.keys(manifest.devDependencies ?? {})),
};

describe("imports", () => {
  test("follow the import rules", () => {
    expect(files.length).toBeGreaterThan(50);
    expect(files.flatMap((file) => breaches(file, packages))).toEqual([]);
  });

  test("form no cycle, neither of files nor of modules", () => {
    expect(fileCycles([...files.filter(({ path }) => !isTestCode(path)), ...benchFiles()])).toEqual([]);
    expect(moduleCycles()).toEqual([]);
  });

  test("of the benchmark take nothing from tests", () => {
    const taken = benchFiles().filter(({ text }) =>
      importsOf(text).some(({ specifier }) => /\/tests\//.test(specifier)),
    );
    expect(taken.map(({ path }) => path)).toEqual([]);
  });

  test("are found in every syntax", () => {
    const text = [
      'import "./a.ts";',
      'import b from "./b.ts";',
      'import * as c from "./c.ts";',
      'import {\n  d,\n  type D,\n} from "./d.ts";',
      'import type { E } from "./e.ts";',
      'import { type F } from "./f.ts";',
      'export { g } from "./g.ts";',
      'export * from "./h.ts";',
      'export type { I } from "./i.ts";',
      'const j = await import("./j.ts");',
      'new Worker(new URL("./k.ts", import.meta.url));',
      'export const text = "./not-an-import.ts";',
      '  import { shown } from "in a template string";',
    ].join("\n");
    const found = importsOf(text);
    expect(found.map(({ specifier }) => specifier)).toEqual([..."abcdefghijk"].map((letter) => `./${letter}.ts`));
    expect(found.filter(({ typeOnly }) => typeOnly).map(({ specifier }) => specifier)).toEqual([
      "./e.ts",
      "./f.ts",
      "./i.ts",
    ]);
  });
});

describe("a violation is found", () => {
  /** One for each rule; what the table itself says is not repeated here. */
  const cases: [what: string, path: string, text: string, says: string][] = [
    ["contract imports another module", "src/contract/a.ts", 'import type { S } from "../store/store.ts";', "nothing"],
    ["contract uses a server's package", "src/contract/a.ts", 'import { Hono } from "hono";', "zod"],
    ["control takes more than types", "src/control/a.ts", 'import { B } from "../blobs/blobs.ts";', "import type"],
    ["control uses a fake", "src/control/a.ts", 'import { F } from "../host/testing/fake-host.ts";', "test code"],
    ["edge imports the store", "src/edge/a.ts", 'import type { S } from "../store/store.ts";', "edge may import"],
    ["a re-export", "src/store/a.ts", 'export * from "../control/access/ids.ts";', "store may import"],
    ["a dynamic import", "src/edge/a.ts", 'const m = await import("../host/machine.ts");', "edge may import"],
    [
      "a module imports its own entry",
      "src/control/http/a.ts",
      'import { C } from "../control.ts";',
      "control/http may",
    ],
    ["a module without a rule", "src/attic/a.ts", "", "no rule"],
    ["a file outside", "src/cli/a.ts", 'import x from "../../tests/nowhere.ts";', "outside"],
    ["a tool of development", "src/cli/a.ts", 'import x from "typescript";', "package.json"],
    ["a server that needs its clients", "src/cli/a.ts", 'import { Sandbox } from "e2b";', "clients"],
    ["a program started by control", "src/control/a.ts", 'Bun.spawn(["true"]);', "start programs"],
    ["a program started by the store", "src/store/a.ts", 'import cp from "node:child_process";', "start programs"],
    ["the kernel called by the edge", "src/edge/a.ts", 'import { FFIType } from "bun:ffi";', "call the kernel"],
    ["the kernel called by base", "src/base/a.ts", 'import { onFirstUse } from "./c-library.ts";', "call the kernel"],
    [
      "an address that holds no buffer",
      "src/system/a.ts",
      'import { ptr } from "bun:ffi";',
      "src/base/c-library.ts only",
    ],
    ["a second loader", "src/guest/system/a.ts", 'import { dlopen } from "bun:ffi";', "src/base/c-library.ts only"],
  ];
  test.each(cases)("%s", (_what, path, text, says) => {
    const found = breaches({ path, text }, packages);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
  });

  test("and imports that tests may use are not violations", () => {
    const text = [
      'import { test } from "bun:test";',
      'import { Sandbox } from "e2b";',
      'import { FakeHost } from "../../host/testing/fake-host.ts";',
      'import { ControlFixture } from "../testing/control-fixture.ts";',
      'import { createControl } from "../control.ts";',
      'Bun.spawn(["true"]);',
    ].join("\n");
    expect(breaches({ path: "src/control/http/a.test.ts", text }, packages)).toEqual([]);
  });
});

describe("files", () => {
  test("are named for what they hold", () => {
    const words = ({ path }: SourceFile) => path.replace(/\.ts$/, "").split(/[/.-]/);
    const named = files.filter((file) => words(file).some((word) => EMPTY_NAMES.test(word)));
    expect(named.map(({ path }) => path)).toEqual([]);
  });

  test("state their purpose", () => {
    expect(files.filter((file) => !saysWhatItIsFor(file)).map(({ path }) => path)).toEqual([]);
  });

  test("spread no literal into a literal", () => {
    const spread = /^\s*\.\.\.(?:\[[^[\]]*\]|\{[^{}]*\}),$/m;
    const all = [...files, ...benchFiles(), ...testFiles()];
    expect(all.filter(({ text }) => spread.test(text)).map(({ path }) => path)).toEqual([]);
  });

  test("of test code are recognised", () => {
    const users = files.filter(({ text }) => importsOf(text).some(({ specifier }) => specifier === "bun:test"));
    expect(users.filter(({ path }) => !isTestCode(path)).map(({ path }) => path)).toEqual([]);
  });
});

/** A comment near the top; or, for `x.test.ts`, the `x.ts` beside it. */
function saysWhatItIsFor({ path, text }: SourceFile): boolean {
  const top = text.split("\n").slice(0, PURPOSE_WITHIN_LINES);
  if (top.some((line) => /^(?:\/\*\*?|\/\/)(?!\s*(?:biome-ignore|@ts-))/.test(line))) return true;
  return path.endsWith(".test.ts") && existsSync(join(PROJECT, path, "..", `${basename(path, ".test.ts")}.ts`));
}
