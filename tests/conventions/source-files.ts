/** The project's files for the conventions tests: paths from the project folder, text, and imports. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const PROJECT = join(import.meta.dir, "../..");

export interface SourceFile {
  /** From the project folder, such as `src/images/disk/disks.ts`. */
  path: string;
  text: string;
}

interface Import {
  specifier: string;
  /** Gone when the program runs. */
  typeOnly: boolean;
}

/** Top-level folders that are never committed. */
const NOT_COMMITTED: ReadonlySet<string> = new Set(["node_modules", ".git", "dist"]);
const GENERATED = "src/contract/runtime/wire/";

export function sourceFiles(): SourceFile[] {
  return filesMatching("src/**/*.ts").filter(({ path }) => !path.startsWith(GENERATED));
}

export function benchFiles(): SourceFile[] {
  return filesMatching("bench/**/*.ts");
}

export function testFiles(): SourceFile[] {
  return filesMatching("tests/**/*.ts");
}

/** Everything that is, or could be, committed. */
export function projectFiles(): SourceFile[] {
  return readdirSync(PROJECT, { withFileTypes: true })
    .filter(({ name }) => !NOT_COMMITTED.has(name) && !name.endsWith(".log"))
    .flatMap((entry) => (entry.isDirectory() ? filesMatching(`${entry.name}/**/*`) : [fileAt(entry.name)]));
}

function filesMatching(pattern: string): SourceFile[] {
  return [...new Bun.Glob(pattern).scanSync({ cwd: PROJECT, dot: true })].sort().map(fileAt);
}

function fileAt(path: string): SourceFile {
  return { path, text: readText(path) };
}

export function readText(path: string): string {
  return readFileSync(join(PROJECT, path), "utf8");
}

/** Only at the start of a line: import statements inside template strings (the banner has some) are indented. */
const STATEMENT = /^(?:import|export)\s+(type\s+)?((?:[\w$*{][\w$*{},\s]*\s)?)(?:from\s+)?["']([^"'\n]+)["']/gm;
const DYNAMIC = /\bimport\(\s*["']([^"']+)["']/g;
const WORKER = /new URL\(\s*["']([^"']+)["'],\s*import\.meta\.url\s*\)/g;

export function importsOf(text: string): Import[] {
  const statements = [...text.matchAll(STATEMENT)].map(([, type, names = "", specifier = ""]) => ({
    specifier,
    typeOnly: type !== undefined || onlyTypes(names),
  }));
  const others = [...text.matchAll(DYNAMIC), ...text.matchAll(WORKER)].map(([, specifier = ""]) => ({
    specifier,
    typeOnly: false,
  }));
  return [...statements, ...others];
}

/** `{ type A, type B }` */
function onlyTypes(names: string): boolean {
  const braced = /^\{([^}]*)\}\s*$/.exec(names.replace(/\bfrom\s*$/, "").trim())?.[1];
  if (braced === undefined) return false;
  const parts = braced.split(",").filter((part) => part.trim() !== "");
  return parts.length > 0 && parts.every((part) => /^\s*type\s/.test(part));
}
