/** The earlier version from which the tests upgrade, as a folder with its files. */
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { attempt, run } from "../../src/system/command.ts";
import { npm } from "./npm.ts";

/** v0.1.0. A commit, because a clone may lack tags. */
const COMMIT = "baa66937376dafa10a7a718b329969dd746004d0";
const PROJECT = join(import.meta.dir, "../..");
const FETCH_MS = 120_000;

/** Throws if this clone lacks the commit, and cannot fetch it. */
export async function referenceVersion(folder: string): Promise<string> {
  const git = ["git", "-c", "safe.directory=*", "-C", PROJECT];
  if ((await attempt([...git, "cat-file", "-e", COMMIT])).exitCode !== 0) {
    // A shallow clone has only the newest commits.
    const fetch = [...git, "fetch", "--quiet", "--depth=1", "origin", COMMIT];
    const { exitCode, stderr } = await attempt(fetch, { timeoutMs: FETCH_MS });
    if (exitCode !== 0) {
      throw new Error(`this clone lacks the commit ${COMMIT}. FIX: git fetch --unshallow. git said: ${stderr}`);
    }
  }
  mkdirSync(folder, { recursive: true });
  const archive = [...git, "archive", COMMIT].map((word) => `'${word}'`).join(" ");
  await run(["bash", "-c", `set -o pipefail; ${archive} | tar --extract --directory="$1"`, "bash", folder]);
  await installPackages(folder);
  return folder;
}

/** Today's packages, unless one that the earlier version names has changed. */
async function installPackages(folder: string): Promise<void> {
  const [then, now] = [packagesOf(folder), packagesOf(PROJECT)];
  if (Object.entries(then).every(([name, version]) => now[name] === version)) {
    symlinkSync(join(PROJECT, "node_modules"), join(folder, "node_modules"));
  } else await npm(["ci", "--no-audit", "--no-fund"], folder);
}

function packagesOf(folder: string): Record<string, string> {
  const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return { ...dependencies, ...devDependencies };
}
