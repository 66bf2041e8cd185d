/** Checks which exports are used, and by which files. An export that no other file imports is a fault. */
import { dirname, join, normalize } from "node:path/posix";
import { isTestCode } from "./import-rules.ts";
import type { SourceFile } from "./source-files.ts";

const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) ([\w$]+)/gm;
const LISTED = /^export (?:type )?\{([^}]*)\}(?! from)/gm;
const NAMED_IMPORT = /^(?:import|export)(?: type)? (?:[\w$]+, )?\{([^}]*)\} from ["'](\.[^"']+)["']/gm;
const SPACE_IMPORT = /^import(?: type)? \* as ([\w$]+) from ["'](\.[^"']+)["']/gm;
const WHOLE_EXPORT = /^export \*(?: as [\w$]+)? from ["'](\.[^"']+)["']/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*["'](\.[^"']+)["']\s*\)(?:\.([\w$]+))?/g;
/** Everything of the file may be used. */
const WHOLE = "*";

interface Export {
  path: string;
  name: string;
}

/** `file: name` of every export that no other file imports. */
export function unusedExports(files: readonly SourceFile[]): string[] {
  const importers = importersOf(files);
  return exportsOf(files)
    .filter((entry) => usersOf(importers, entry).length === 0)
    .map(({ path, name }) => `${path}: ${name}`);
}

/**
 * `file: name` of every export that only tests need: no other file imports it, and its own file does not use it. Wire
 * definitions are left out, because they document the protocol.
 */
export function exportsForTestsOnly(files: readonly SourceFile[]): string[] {
  const importers = importersOf(files);
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  return exportsOf(files)
    .filter(({ path }) => !isTest(path) && !path.startsWith("src/contract/"))
    .filter((entry) => {
      const users = usersOf(importers, entry);
      const own = texts.get(entry.path)?.match(new RegExp(`(?<![\\w$])${entry.name}(?![\\w$])`, "g"))?.length ?? 0;
      return users.length > 0 && users.every(isTest) && own === 1;
    })
    .map(({ path, name }) => `${path}: ${name}`);
}

function isTest(path: string): boolean {
  return path.startsWith("tests/") || isTestCode(path);
}

function exportsOf(files: readonly SourceFile[]): Export[] {
  return files.flatMap(({ path, text }) => {
    const declared = [...text.matchAll(DECLARED)].map(([, name = ""]) => name);
    const listed = [...text.matchAll(LISTED)].flatMap(([, names = ""]) => namesIn(names, "after as"));
    return [...declared, ...listed].map((name) => ({ path, name }));
  });
}

/** For each file and each name in it, the files that import that name. */
function importersOf(files: readonly SourceFile[]): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const { path, text } of files) {
    const note = (specifier: string, name: string): void => {
      const key = `${normalize(join(dirname(path), specifier))}: ${name}`;
      importers.set(key, [...(importers.get(key) ?? []), path]);
    };
    for (const [, names = "", specifier = ""] of text.matchAll(NAMED_IMPORT)) {
      for (const name of namesIn(names, "before as")) note(specifier, name);
    }
    for (const [whole, space = "", specifier = ""] of text.matchAll(SPACE_IMPORT)) {
      for (const name of namesOf(space, text.replace(whole, ""))) note(specifier, name);
    }
    for (const [, specifier = ""] of text.matchAll(WHOLE_EXPORT)) note(specifier, WHOLE);
    for (const [, specifier = "", name = WHOLE] of text.matchAll(DYNAMIC_IMPORT)) note(specifier, name);
  }
  return importers;
}

/** The used names of `import * as space`: `space.name`, or all of them if the namespace is passed on. */
function namesOf(space: string, text: string): string[] {
  const uses = text.matchAll(new RegExp(`(?<![\\w$.])${space.replaceAll("$", "\\$")}(?![\\w$])(?:\\.([\\w$]+))?`, "g"));
  return [...uses].map(([, name = WHOLE]) => name);
}

function usersOf(importers: ReadonlyMap<string, string[]>, { path, name }: Export): string[] {
  return [name, WHOLE].flatMap((each) => importers.get(`${path}: ${each}`) ?? []).filter((user) => user !== path);
}

/** `a, type b as c` */
function namesIn(list: string, side: "before as" | "after as"): string[] {
  return list
    .split(",")
    .map((part) => part.trim().replace(/^type /, ""))
    .filter((part) => part !== "")
    .map((part) => part.split(" as ").at(side === "before as" ? 0 : -1) ?? part);
}
