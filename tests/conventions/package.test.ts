/** The npm package has all sources of a server, starts from a read-only folder, and stays small. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { importsOf, PROJECT, readText } from "./source-files.ts";

/** Also stated in docs/install.md. */
const PACKED_MAX_MB = 1.5;
const MB = 1_000_000;
const RUN_MS = 120_000;

const root = mkdtempSync(join(tmpdir(), "sandlot-package-"));
const installed = join(root, "lib/node_modules/sandlot");
const manifest = JSON.parse(readText("package.json")) as { dependencies: Record<string, string>; version: string };
const tarball = join(root, `sandlot-${manifest.version}.tgz`);
let packed: string[] = [];

beforeAll(() => {
  // Its scripts would write into this folder.
  run(["npm", "pack", "--ignore-scripts", "--pack-destination", root], PROJECT);
  mkdirSync(installed, { recursive: true });
  run(["tar", "--extract", "--gzip", "--strip-components=1", "--directory", installed, "--file", tarball], root);
  packed = filesBelow(installed);
}, 2 * RUN_MS);
afterAll(() => {
  run(["chmod", "-R", "u+w", root], tmpdir());
  rmSync(root, { recursive: true });
});

test("the package has every source and template", () => {
  const wanted = ["bin/sandlot", "LICENSE", "README.md", ...["src", "templates"].flatMap(sourcesBelow)];
  expect(wanted.filter((path) => !packed.includes(path))).toEqual([]);
});

test("the package has no tests, benchmarks or plots", () => {
  expect(packed.filter((path) => /^(?:tests|bench|examples)\/|\.test\.ts$|\/testing\/|\.svg$/.test(path))).toEqual([]);
});

test("the package is as small as its documentation says", () => {
  expect(statSync(tarball).size).toBeLessThan(PACKED_MAX_MB * MB);
  expect(readText("docs/install.md")).toContain(`at most ${PACKED_MAX_MB} MB`);
});

test("the package imports only packages that npm installs with it", () => {
  const known = new Set(Object.keys(manifest.dependencies));
  const sources = packed.filter((path) => path.endsWith(".ts"));
  const unknown = sources.flatMap((path) =>
    importsOf(readText(path))
      .filter(({ specifier, typeOnly }) => !typeOnly && !/^(?:\.|node:|bun(?::|$))/.test(specifier))
      .map(({ specifier }) => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/"))
      .filter((name) => !known.has(name))
      .map((name) => `${path}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

describe("an installed package", () => {
  const caller = join(root, "caller");
  beforeAll(() => {
    // As npm does, beside the package instead of inside it.
    for (const name of readdirSync(join(PROJECT, "node_modules"))) {
      symlinkSync(join(PROJECT, "node_modules", name), join(installed, "..", name));
    }
    run(["chmod", "-R", "a-w", installed], root);
    mkdirSync(caller);
    writeFileSync(join(caller, "hostile.js"), 'console.log("hostile")');
    writeFileSync(join(caller, "bunfig.toml"), 'preload = ["./hostile.js"]');
    writeFileSync(join(caller, "tsconfig.json"), '{ "compilerOptions": { "paths": { "*": ["./hostile.js"] } } }');
    writeFileSync(join(caller, ".env"), "SANDLOT_HOSTILE=1");
  });

  test("starts, and runs nothing of the caller's folder", () => {
    expect(run(["node", join(installed, "bin/sandlot"), "--version"], caller)).toBe(`sandlot ${manifest.version}\n`);
  });

  test("refuses commands that need a clone", () => {
    expect(() => run(["node", join(installed, "bin/sandlot"), "trace", "create"], caller)).toThrow("FIX: use a clone");
  });
});

function sourcesBelow(folder: string): string[] {
  const all = filesBelow(join(PROJECT, folder)).map((path) => join(folder, path));
  return all.filter((path) => !/\.test\.ts$|\/testing\/|\.pyc$/.test(path));
}

/** Links count, which npm would drop. */
function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

function run(argv: readonly string[], cwd: string): string {
  const env = {
    PATH: process.env.PATH,
    HOME: root,
    npm_config_cache: join(root, "cache"),
    npm_config_update_notifier: "false",
  };
  const { exitCode, stdout, stderr } = Bun.spawnSync([...argv], { cwd, env, timeout: RUN_MS });
  if (exitCode !== 0) throw new Error(`${argv.join(" ")} ended with ${exitCode}: ${stderr}`);
  return stdout.toString();
}
