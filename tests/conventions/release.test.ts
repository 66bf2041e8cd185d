/** `npm run release` in a small repository with this project's package files, whose check takes no time. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { changesOf, withRelease } from "../../release/changelog.ts";
import { PROJECT, readText } from "./source-files.ts";

const COPIED = ["package.json", "package-lock.json", ".npmrc", ".gitignore", "LICENSE", "README.md", "release"];
const RUN_MS = 120_000;
const CHANGELOG = `# Changelog

Text.

## [Unreleased]

<!-- New lines go to the end. -->

### Added

- A new thing.
`;

const root = mkdtempSync(join(tmpdir(), "sandlot-release-"));
const clone = join(root, "clone");
const at = (path: string) => join(clone, path);
const read = (path: string) => readFileSync(at(path), "utf8");
const manifest = () => JSON.parse(read("package.json"));

beforeAll(() => {
  for (const name of COPIED) cpSync(join(PROJECT, name), at(name), { recursive: true });
  const { scripts, ...rest } = manifest();
  scripts.check = "test ! -e check-fails && echo 3 passed, 0 failed";
  writeFileSync(at("package.json"), JSON.stringify({ ...rest, version: "0.1.0", scripts }, undefined, 2));
  writeFileSync(at("CHANGELOG.md"), CHANGELOG);
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "test");
  git("config", "user.email", "test@example.com");
  commitAll();
}, RUN_MS);
afterAll(() => rmSync(root, { recursive: true }));

test("a release is committed and tagged, with its package, parts and digests", () => {
  const first = release("0.2.0");
  expect(first.said).toContain("3 passed, 0 failed");
  expect(first.said).toEndWith("git push origin HEAD v0.2.0\n");
  expect(git("status", "--porcelain")).toBe("");
  expect(git("log", "-2", "--format=%s")).toBe("Begin 0.3.0-dev\nRelease 0.2.0\n");
  expect(git("rev-parse", "v0.2.0^{commit}")).toBe(git("rev-parse", "HEAD~1"));
  expect(git("cat-file", "-t", "v0.2.0")).toBe("tag\n");
  expect(manifest().version).toBe("0.3.0-dev");
  git("checkout", "--quiet", "v0.2.0");
  const lock = JSON.parse(read("package-lock.json"));
  expect([manifest().version, lock.version, lock.packages[""].version]).toEqual(["0.2.0", "0.2.0", "0.2.0"]);
  expect(read("CHANGELOG.md")).toMatch(
    /^## \[Unreleased\]\n\n<!-- .* -->\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added$/m,
  );

  const files = ["SHA256SUMS", "sandlot-0.2.0.cdx.json", "sandlot-0.2.0.tgz"];
  expect(readdirSync(at("dist")).sort()).toEqual(files);
  run(["sha256sum", "--check", "--strict", "SHA256SUMS"], at("dist"));
  const packed = run(["tar", "--extract", "--to-stdout", "--file", files[2] ?? "", "package/package.json"], at("dist"));
  expect(JSON.parse(packed).version).toBe("0.2.0");
  const { metadata, components } = JSON.parse(read(`dist/${files[1]}`));
  expect(metadata.component).toMatchObject({ name: "sandlot", version: "0.2.0" });
  const parts = components.map(({ name, group }: { name: string; group?: string }) =>
    group ? `${group}/${name}` : name,
  );
  expect(parts).toContain("bun");
  expect(parts).not.toContain("@biomejs/biome");

  // As the workflow of a tag does: the same package from the same commit.
  const packageDigest = read("dist/SHA256SUMS").split("\n")[0] ?? "";
  rmSync(at("dist"), { recursive: true });
  expect(release("--files").said).toContain(packageDigest);
  rmSync(at("dist"), { recursive: true });
  git("checkout", "--quiet", "main");
});

describe("a release is refused", () => {
  test.each([
    [["v0.3.0"], 'a version is three numbers such as 0.2.0, not "v0.3.0"'],
    [["0.3"], 'a version is three numbers such as 0.2.0, not "0.3"'],
    [[], "Usage: npm run release -- VERSION"],
    [["0.3.0", "--files"], "Usage: npm run release -- VERSION"],
    [["0.2.9"], "0.2.9 is not higher than the present 0.3.0-dev"],
    [["0.2.0"], "there is a tag v0.2.0 already"],
    [["0.3.0"], "CHANGELOG.md has no line under Unreleased"],
  ])("%p", (args, reason) => {
    refused(args, reason);
  });

  test("of a version in the changelog, in a clone without its tag", () => {
    const tagged = git("rev-parse", "v0.2.0").trim();
    git("tag", "--delete", "v0.2.0");
    refused(["0.2.0"], "CHANGELOG.md has the version 0.2.0 already");
    git("update-ref", "refs/tags/v0.2.0", tagged);
  });

  test("of the present version", () => {
    const sources = read("package.json");
    writeFileSync(at("package.json"), sources.replace('"0.3.0-dev"', '"0.3.0"'));
    commitAll();
    refused(["0.3.0"], "0.3.0 is not higher than the present 0.3.0");
    writeFileSync(at("package.json"), sources);
    commitAll();
  });

  test("with files that are not committed", () => {
    writeFileSync(at("new.txt"), "");
    refused(["0.3.0"], "?? new.txt");
    rmSync(at("new.txt"));
  });

  test("when the check or a later step fails, and leaves the sources as they were", () => {
    writeFileSync(at("CHANGELOG.md"), read("CHANGELOG.md").replace("\n## [0", "\n### Fixed\n\n- An error.\n\n## [0"));
    writeFileSync(at("check-fails"), "");
    commitAll();
    refused(["0.3.0"], "npm run --silent check ended with 1");
    rmSync(at("check-fails"));
    // A file where the folder of the results should be.
    writeFileSync(at(".gitignore"), `${read(".gitignore")}dist\n`);
    commitAll();
    rmSync(at("dist"), { recursive: true, force: true });
    writeFileSync(at("dist"), "");
    refused(["0.3.0"], "EEXIST");
    rmSync(at("dist"));
  });
});

test("a dry run makes the files and changes nothing else", () => {
  const head = git("rev-parse", "HEAD");
  expect(release("0.3.0", "--dry-run").said).toEndWith("dry run: nothing was committed\n");
  expect([git("rev-parse", "HEAD"), git("status", "--porcelain"), git("tag", "--list")]).toEqual([
    head,
    "",
    "v0.2.0\n",
  ]);
  expect(existsSync(at("dist/sandlot-0.3.0.tgz"))).toBe(true);
});

test("the changelog keeps earlier releases, and can be released as it is", () => {
  const once = withRelease(CHANGELOG, "0.2.0", "2026-01-02");
  const more = once.replace("-->\n", "-->\n\n### Fixed\n\n- An error.\n");
  const twice = withRelease(more, "0.3.0", "2026-02-03");
  expect(twice.match(/^##+ .*$/gm)).toEqual([
    "## [Unreleased]",
    "## [0.3.0] - 2026-02-03",
    "### Fixed",
    "## [0.2.0] - 2026-01-02",
    "### Added",
  ]);
  expect(changesOf(twice, "0.2.0")).toBe("### Added\n\n- A new thing.");
  expect(changesOf(twice, "Unreleased")).toBeUndefined();
  const own = readText("CHANGELOG.md");
  const unreleased = changesOf(own, "Unreleased");
  if (unreleased !== undefined)
    expect(changesOf(withRelease(own, "999.0.0", "2026-01-02"), "999.0.0")).toBe(unreleased);
});

test("the version of the sources is a release's only if they have no unreleased changes", () => {
  const { version } = JSON.parse(readText("package.json")) as { version: string };
  const own = readText("CHANGELOG.md");
  const [, released = ""] = /^## \[(\d.*?)\]/m.exec(own) ?? [];
  expect(Bun.semver.order(version, released)).toBe(changesOf(own, "Unreleased") === undefined ? 0 : 1);
});

function refused(args: string[], reason: string): void {
  const before = [git("rev-parse", "HEAD"), git("status", "--porcelain"), git("tag", "--list")];
  const { exitCode, said } = tryRelease(args);
  expect(said).toContain(reason);
  expect(exitCode).toBe(1);
  expect([git("rev-parse", "HEAD"), git("status", "--porcelain"), git("tag", "--list")]).toEqual(before);
}

function release(...args: string[]) {
  const result = tryRelease(args);
  if (result.exitCode !== 0) throw new Error(result.said);
  return result;
}

function tryRelease(args: string[]) {
  const { exitCode, stdout, stderr } = spawn([process.execPath, at("release/main.ts"), ...args], clone);
  return { exitCode, said: `${stderr}${stdout}` };
}

function commitAll(): void {
  git("add", "--all");
  git("commit", "--quiet", "--message=a change");
}

function git(...args: string[]): string {
  return run(["git", ...args], clone);
}

function run(argv: string[], cwd: string): string {
  const { exitCode, stdout, stderr } = spawn(argv, cwd);
  if (exitCode !== 0) throw new Error(`${argv.join(" ")} ended with ${exitCode}: ${stderr}`);
  return stdout.toString();
}

function spawn(argv: string[], cwd: string) {
  const env = {
    PATH: process.env.PATH,
    HOME: root,
    npm_config_cache: join(root, "cache"),
    npm_config_update_notifier: "false",
  };
  return Bun.spawnSync(argv, { cwd, env, timeout: RUN_MS });
}
