/**
 * `npm run release -- VERSION`: runs the check, sets the version, dates the changelog, makes the files of the release in
 * `dist`, commits and tags. A second commit sets the version of the work after it, such as 0.3.0-dev, so that no other
 * program has a released version. It pushes and publishes nothing. With --dry-run it restores the sources instead.
 * `npm run release -- --files` only makes the files of the present version, as the workflow of a tag does.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { changesOf, withRelease } from "./changelog.ts";

const PROJECT = join(import.meta.dir, "..");
const FOLDER = join(PROJECT, "dist");
const CHANGELOG = join(PROJECT, "CHANGELOG.md");
const CHANGED = ["package.json", "package-lock.json", "CHANGELOG.md"];
const STEP_MS = 120_000;
const CHECK_MS = 1_800_000;
const VERSION = /^(?:0|[1-9]\d{0,5})(?:\.(?:0|[1-9]\d{0,5})){2}$/;

class Refusal extends Error {}

try {
  await main(process.argv.slice(2));
} catch (thrown) {
  if (!(thrown instanceof Refusal)) throw thrown;
  console.error(`release: ${thrown.message}`);
  process.exit(1);
}

async function main(args: string[]): Promise<void> {
  const { version, dryRun, filesOnly } = parse(args);
  if (filesOnly) return await makeFiles(presentVersion());
  requireClean();
  requireNew(version);
  const changelog = readFileSync(CHANGELOG, "utf8");
  if (changesOf(changelog, "Unreleased") === undefined) {
    throw new Refusal("CHANGELOG.md has no line under Unreleased. FIX: describe the changes of this release there");
  }
  run(["npm", "run", "--silent", "check"], { show: true, timeoutMs: CHECK_MS });
  requireClean();
  let isDone = false;
  try {
    setVersion(version);
    writeFileSync(CHANGELOG, withRelease(changelog, version, new Date().toISOString().slice(0, 10)));
    await makeFiles(version);
    if (!dryRun) {
      run(["git", "commit", "--quiet", "--all", `--message=Release ${version}`]);
      run(["git", "tag", "--annotate", `v${version}`, `--message=Sandlot ${version}`]);
      setVersion(versionAfter(version));
      run(["git", "commit", "--quiet", "--all", `--message=Begin ${versionAfter(version)}`]);
    }
    isDone = !dryRun;
  } finally {
    if (!isDone) run(["git", "checkout", "--quiet", "--", ...CHANGED]);
  }
  console.log(isDone ? `git push origin HEAD v${version}` : "dry run: nothing was committed");
}

function parse(args: string[]) {
  const usage = "Usage: npm run release -- VERSION [--dry-run], or npm run release -- --files";
  try {
    const options = { "dry-run": { type: "boolean" }, files: { type: "boolean" } } as const;
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    const [version = "", ...rest] = positionals;
    const [filesOnly, dryRun] = [values.files === true, values["dry-run"] === true];
    if (rest.length > 0 || filesOnly === (version !== "") || (filesOnly && dryRun)) throw new Error("wrong arguments");
    if (filesOnly || VERSION.test(version)) return { version, dryRun, filesOnly };
    throw new Error(`a version is three numbers such as 0.2.0, not "${version}"`);
  } catch (cause) {
    throw new Refusal(`${cause instanceof Error ? cause.message : cause}. ${usage}`);
  }
}

function requireClean(): void {
  const changed = run(["git", "status", "--porcelain"]).trim();
  if (changed !== "") throw new Refusal(`these files are not committed:\n${changed}\nFIX: commit or remove them`);
}

/** The version of the work after a release: before the next minor version. */
function versionAfter(version: string): string {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return `${major}.${minor + 1}.0-dev`;
}

function setVersion(version: string): void {
  run(["npm", "version", version, "--no-git-tag-version", "--ignore-scripts"]);
}

function requireNew(version: string): void {
  const tag = `v${version}`;
  if (run(["git", "tag", "--list", tag]).trim() !== "") throw new Refusal(`there is a tag ${tag} already`);
  if (changesOf(readFileSync(CHANGELOG, "utf8"), version) !== undefined) {
    throw new Refusal(`CHANGELOG.md has the version ${version} already`);
  }
  const present = presentVersion();
  if (Bun.semver.order(version, present) <= 0)
    throw new Refusal(`${version} is not higher than the present ${present}`);
}

function presentVersion(): string {
  return (JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as { version: string }).version;
}

/** The npm package, its parts as CycloneDX, and the digests of both. */
async function makeFiles(version: string): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  for (const old of new Bun.Glob("{sandlot-*,SHA256SUMS}").scanSync(FOLDER)) rmSync(join(FOLDER, old));
  run(["npm", "pack", "--pack-destination", FOLDER]);
  const parts = `sandlot-${version}.cdx.json`;
  const sbom = ["npm", "sbom", "--sbom-format=cyclonedx", "--sbom-type=application", "--package-lock-only"];
  const bill = JSON.parse(run([...sbom, "--omit=dev"])) as { metadata: { component: { name: string } } };
  // npm takes the name of the folder.
  bill.metadata.component.name = "sandlot";
  writeFileSync(join(FOLDER, parts), `${JSON.stringify(bill, undefined, 2)}\n`);
  const sums = [`sandlot-${version}.tgz`, parts].map((name) => {
    const digest = new Bun.CryptoHasher("sha256").update(readFileSync(join(FOLDER, name))).digest("hex");
    return `${digest}  ${name}\n`;
  });
  writeFileSync(join(FOLDER, "SHA256SUMS"), sums.join(""));
  process.stdout.write(sums.join(""));
}

function run(argv: readonly string[], { show = false, timeoutMs = STEP_MS } = {}): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...argv], {
    cwd: PROJECT,
    stdio: ["ignore", show ? "inherit" : "pipe", show ? "inherit" : "pipe"],
    timeout: timeoutMs,
  });
  if (exitCode !== 0) throw new Refusal(`${argv.join(" ")} ended with ${exitCode}\n${stderr ?? ""}`.trim());
  return stdout?.toString() ?? "";
}
