/** Lists what a program consists of: its file, all files that it imports, directly or not, and their packages. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Fault } from "../contract/fault.ts";

export const GUEST_PROGRAM = "src/guest/main.ts";

interface Sources {
  /** Absolute paths, sorted. */
  files: string[];
  /** Packages as `name@version`, sorted. */
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
  return {
    files: [...files].sort(),
    packages: [...packages].sort().map((name) => `${name}@${installedVersion(project, name)}`),
  };
}

/** npm may install a package beside the one that needs it, or in a folder above. */
function installedVersion(project: string, name: string): string {
  for (let folder = project; ; folder = dirname(folder)) {
    const manifest = join(folder, "node_modules", name, "package.json");
    if (existsSync(manifest)) return (JSON.parse(readFileSync(manifest, "utf8")) as { version: string }).version;
    if (folder === dirname(folder)) throw new Fault(500, `a program imports ${name}, which is not installed`);
  }
}

function packageName(specifier: string): string {
  const parts = specifier.startsWith("@") ? 2 : 1;
  return specifier.split("/", parts).join("/");
}
