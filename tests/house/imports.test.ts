/** The directions between the rooms of the house, and the shape of its files. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { breaches, isTestCode, type Packages } from "./import-rules.ts";
import { importsOf, PROJECT, readText, type SourceFile, sourceFiles } from "./source-files.ts";

const LINES_MAX = 400;
/** A file says what it is for within so many lines. */
const PURPOSE_WITHIN_LINES = 12;
const EMPTY_NAMES = /^(?:utils?|helpers?|types?|common|misc|managers?)$/;

const files = sourceFiles();
const manifest = JSON.parse(readText("package.json")) as Record<string, Record<string, string>>;
const packages: Packages = {
  dependencies: new Set(Object.keys(manifest.dependencies ?? {})),
  devDependencies: new Set(Object.keys(manifest.devDependencies ?? {})),
};

describe("imports", () => {
  test("go the way the house allows", () => {
    expect(files.length).toBeGreaterThan(50);
    expect(files.flatMap((file) => breaches(file, packages))).toEqual([]);
  });

  test("are found in every form they are written in", () => {
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

describe("a breach is found", () => {
  const cases: [what: string, path: string, text: string, says: string][] = [
    ["contract looks at another room", "src/contract/a.ts", 'import type { S } from "../store/store.ts";', "nothing"],
    ["contract uses a server's package", "src/contract/a.ts", 'import { Hono } from "hono";', "zod"],
    ["control goes behind the host's door", "src/control/a.ts", 'import { D } from "../host/disk.ts";', "host/host.ts"],
    ["control takes more than types", "src/control/a.ts", 'import { Host } from "../host/host.ts";', "import type"],
    ["control uses the test double", "src/control/a.ts", 'import { M } from "../host/memory-host.ts";', "test code"],
    ["edge asks control for more", "src/edge/a.ts", 'import type { L } from "../control/lifecycle.ts";', "directory"],
    ["edge asks the store", "src/edge/a.ts", 'import type { S } from "../store/store.ts";', "edge may import"],
    ["host calls up", "src/host/doctor/a.ts", 'import { L } from "../../control/lifecycle.ts";', "host may import"],
    ["guest knows the host", "src/guest/a.ts", 'import { N } from "../host/network.ts";', "guest may import"],
    ["a re-export", "src/store/a.ts", 'export * from "../control/ids.ts";', "store may import"],
    ["a dynamic import", "src/edge/a.ts", 'const m = await import("../host/machine.ts");', "edge may import"],
    ["a room without a rule", "src/attic/a.ts", "", "no rule"],
    ["a file outside", "src/cli/a.ts", 'import x from "../../tests/run.ts";', "outside"],
    ["a tool of development", "src/cli/a.ts", 'import { Sandbox } from "e2b";', "package.json"],
    ["a program started by control", "src/control/a.ts", 'Bun.spawn(["true"]);', "start programs"],
    ["the kernel called by the edge", "src/edge/a.ts", 'import { dlopen } from "bun:ffi";', "call the kernel"],
    ["a program started by the store", "src/store/a.ts", 'import cp from "node:child_process";', "start programs"],
  ];
  test.each(cases)("%s", (_what, path, text, says) => {
    const found = breaches({ path, text }, packages);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
  });

  test("and what tests may do is not one", () => {
    const text = [
      'import { test } from "bun:test";',
      'import { Sandbox } from "e2b";',
      'import { MemoryHost } from "../host/memory-host.ts";',
      'import { ControlFixture } from "./control-fixture.ts";',
      'Bun.spawn(["true"]);',
    ].join("\n");
    expect(breaches({ path: "src/control/a.test.ts", text }, packages)).toEqual([]);
  });
});

describe("files", () => {
  test("are named for what they hold", () => {
    const words = ({ path }: SourceFile) => path.replace(/\.ts$/, "").split(/[/.-]/);
    const named = files.filter((file) => words(file).some((word) => EMPTY_NAMES.test(word)));
    expect(named.map(({ path }) => path)).toEqual([]);
  });

  test("say what they are for", () => {
    expect(files.filter((file) => !saysWhatItIsFor(file)).map(({ path }) => path)).toEqual([]);
  });

  test(`have at most ${LINES_MAX} lines`, () => {
    const long = files.filter(({ text }) => text.trimEnd().split("\n").length > LINES_MAX);
    expect(long.map(({ path }) => path)).toEqual([]);
  });

  test("of test code are known as such", () => {
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
