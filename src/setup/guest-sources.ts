/** Lists what a program consists of: its file, all files that it imports, directly or not, and their packages. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Fault } from "../contract/fault.ts";

export const GUEST_PROGRAM = "src/guest/main.ts";

interface Sources {
  /** Absolute paths, sorted. */
  files: string[];
  /** As `name@version`, sorted. */
  packages: string[];
}

export function guestSources(project: string): Sources {
  return sourcesOf(project, GUEST_PROGRAM);
}

export function sourcesOf(project: string, program: string): Sources {
  const transpiler = new Bun.Transpiler({ loader: "ts" });
  const files = new Set<string>();
  const packages = new Set<string>();
  const waiting = [join(project, program)];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (files.has(file)) continue;
    files.add(file);
    // Type imports are not listed; they leave nothing in the program.
    for (const { path } of transpiler.scanImports(readFileSync(file, "utf8"))) {
      if (path.startsWith(".")) waiting.push(join(dirname(file), path));
      else if (!/^(?:node|bun)(?::|$)/.test(path)) packages.add(packageName(path));
    }
  }
  const versions = lockedVersions(project);
  return {
    files: [...files].sort(),
    packages: [...packages].sort().map((name) => `${name}@${versionOf(name, versions)}`),
  };
}

function lockedVersions(project: string): Record<string, { version?: string }> {
  const lock = JSON.parse(readFileSync(join(project, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version?: string }>;
  };
  return lock.packages;
}

function versionOf(name: string, versions: Record<string, { version?: string }>): string {
  const version = versions[`node_modules/${name}`]?.version;
  if (version === undefined) throw new Fault(500, `a program imports ${name}, which package-lock.json does not name`);
  return version;
}

function packageName(specifier: string): string {
  const parts = specifier.startsWith("@") ? 2 : 1;
  return specifier.split("/", parts).join("/");
}
