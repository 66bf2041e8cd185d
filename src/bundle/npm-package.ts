/** The npm package of Sandlot with all its packages, as `npm install -g` lays them out below a prefix. */
import { existsSync, readdirSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { fetchFault, npmPlace } from "../setup/fetch-faults.ts";
import { lines } from "../setup/packages.ts";
import { run } from "../system/command.ts";
import { COMPRESS, TAR_MS } from "./archive.ts";

const PROJECT = join(import.meta.dir, "../..");
const NPM_MS = scaled(1_200_000);
const QUIET = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];

/** Unpacked into `/usr/local`, the archive is a global installation. */
export async function packProgram(
  archive: string,
  cacheFolder: string,
  progress: (line: string) => void,
): Promise<void> {
  const work = `${archive}.npm`;
  await mkdir(join(work, "prefix"), { recursive: true });
  const npm = (args: readonly string[]) =>
    run(["npm", ...args], { cwd: work, timeoutMs: NPM_MS, onOutput: lines(progress) }).catch((cause) => {
      throw fetchFault(cause, npmPlace(cacheFolder));
    });
  try {
    // The script of a clone adds its lock file, which an installed package has already.
    const isClone = existsSync(join(PROJECT, "package-lock.json"));
    await npm(["pack", ...(isClone ? [] : ["--ignore-scripts"]), "--pack-destination", work, PROJECT]);
    const packed = readdirSync(work).filter((name) => name.endsWith(".tgz"));
    await npm(["install", "--global", ...QUIET, "--prefix", join(work, "prefix"), ...packed.map((n) => join(work, n))]);
    const options = ["--create", COMPRESS, "--owner=0", "--group=0", "--numeric-owner", "--file", archive];
    await run(["tar", ...options, "--directory", join(work, "prefix"), "bin", "lib"], { timeoutMs: TAR_MS });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
