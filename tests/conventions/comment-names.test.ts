/** Comments and paths of programs name files, functions and fields that exist, so that no old name stays behind. */
import { expect, test } from "bun:test";
import { basename, dirname, join } from "node:path/posix";
import { benchFiles, projectFiles, type SourceFile, sourceFiles, testFiles } from "./source-files.ts";

/** Placeholders, and names made at run time. */
const FOREIGN: ReadonlySet<string> = new Set([
  "x.ts",
  "x.test.ts",
  "x.root.test.ts",
  "postV2SandboxesSandboxIDConnect",
]);

/** Whole comment lines, and comments at the end of a line of code. */
const COMMENT = /^\s*(?:\/\/|\/\*\*?|\*(?!\/))(.*)$|\s\/\/ (.*)$/gm;
const FILE = /(?<![\w./-])(?:[\w.-]+\/)*[\w-][\w.-]*\.ts\b/g;
/** Names of several words between back-ticks, and calls without arguments anywhere. */
const QUOTED = /`[^`]+`/g;
const CAMEL_CASE = /(?<![\w/$-])[A-Za-z][a-z\d]+[A-Z]\w*/g;
const CALL = /(?<![\w.:/])([a-z]\w+)\(\)/g;

/** Rules that hold names which must not exist. */
const RULES = /^tests\/conventions\/(?:comment-names|words)\.test\.ts$/;
const files = [...sourceFiles(), ...benchFiles(), ...testFiles()];
const all = projectFiles();
const paths = all.map(({ path }) => path);
const names = new Set(paths.map((path) => basename(path)));
const words = new Set(
  all
    .filter(({ path }) => !/\.(?:md|json)$/.test(path) && !RULES.test(path))
    .flatMap(({ text }) => text.replaceAll(COMMENT, "").match(/\w+/g) ?? []),
);

/** A file named beside the file at hand, but not by an import. */
const BESIDE = /(?:\bjoin\(import\.meta\.dir, "|\$\{import\.meta\.dir\}\/)([^"`]+\.(?:ts|py))["`]/g;

test("files beside a module, named by their path, exist", () => {
  const programs = files.flatMap(({ path, text }) =>
    [...text.matchAll(BESIDE)].map(([, named = ""]) => ({ path, file: join(dirname(path), named) })),
  );
  expect(programs.length).toBeGreaterThan(40);
  expect(programs.filter(({ file }) => !paths.includes(file))).toEqual([]);
});

test("files and names in comments exist", () => {
  expect(files.flatMap((file) => unknownNames(file))).toEqual([]);
});

test("unknown files and names are found", () => {
  const text =
    "/** See unknown-file.ts, src/nowhere/fault.ts, `noSuchName` and noSuchCall(). */\n * `file.noSuchField`";
  const unknown = ["unknown-file.ts", "src/nowhere/fault.ts", "noSuchName", "noSuchField", "noSuchCall"];
  expect(unknownNames({ path: "a.ts", text })).toHaveLength(unknown.length);
  expect(unknownNames({ path: "a.ts", text: "// src/contract/fault.ts, fault.ts, `replaceAll`, flatMap()" })).toEqual(
    [],
  );
});

function unknownNames({ path, text }: SourceFile): string[] {
  const comments = [...text.matchAll(COMMENT)].map(([, line, end]) => line ?? end ?? "").join("\n");
  const quoted = (comments.match(QUOTED) ?? []).join("\n");
  const named = [...(quoted.match(CAMEL_CASE) ?? []), ...[...comments.matchAll(CALL)].map(([, name = ""]) => name)];
  const unknown = [
    ...(comments.match(FILE) ?? []).filter((file) => !isFile(file)),
    ...named.filter((name) => !words.has(name)),
  ];
  return unknown.filter((name) => !FOREIGN.has(name)).map((name) => `${path}: ${name}`);
}

function isFile(name: string): boolean {
  return name.includes("/") ? paths.some((path) => path === name || path.endsWith(`/${name}`)) : names.has(name);
}
