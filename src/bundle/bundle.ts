/**
 * Makes a bundle on a machine that has fetched everything, and installs one on a machine without a network:
 *
 *   manifest.json        what it is for, and the digest of each file below
 *   program/npm.tar.gz   Sandlot with its npm packages
 *   packages/            Debian packages of the commands that setup installs, as a source for apt
 *   cache/               archives of the folders in the cache that setup makes of further packages
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { version } from "../base/version.ts";
import { Fault } from "../contract/fault.ts";
import { COMMANDS, KEYRING_PACKAGE, missingCommands, missingPackages } from "../setup/packages.ts";
import type { SetupStep } from "../setup/step.ts";
import { readManifest, unpackBundle, writeBundle } from "./archive.ts";
import { archiveOf, isCached, type Needs, neededFolders, packFolders, unpackFolders } from "./cached-folders.ts";
import { fetchPackages, installFetched } from "./debian-packages.ts";
import { type Machine, releaseOf, requireArchitecture, requireNothing, requireRelease } from "./manifest.ts";
import { packProgram } from "./npm-package.ts";

/** In the cache folder, while a bundle is installed. */
const UNPACKED = "bundle.unfinished";

type Progress = (line: string) => void;

/** The cache must have all folders that the needs name. Returns the size of the bundle. */
export async function makeBundle(file: string, needs: Needs, progress: Progress): Promise<number> {
  const { cacheFolder } = needs;
  const folder = `${file}.parts`;
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(join(folder, "program"), { recursive: true });
    await packProgram(join(folder, "program/npm.tar.gz"), cacheFolder, progress);
    const packages = new Set([...Object.values(COMMANDS), KEYRING_PACKAGE]);
    await fetchPackages(join(folder, "packages"), [...packages], progress);
    await packFolders(cacheFolder, neededFolders(needs), join(folder, "cache"), progress);
    progress("writing the file");
    await writeBundle(file, thisMachine(), folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return statSync(file).size;
}

/** The first step of a setup from a bundle; the ones after it then find everything done. Fault 404 without the file. */
export function bundleStep(file: string, needs: Needs): SetupStep {
  if (!existsSync(file)) throw new Fault(404, `there is no bundle ${file}`);
  return {
    title: `packages of the bundle ${file}`,
    done: () =>
      missingCommands().length === 0 && neededFolders(needs).every((name) => isCached(needs.cacheFolder, name)),
    make: (progress) => installBundle(file, needs, progress),
  };
}

/** Installs what is missing. Fault 422 unless the bundle has all of it, unchanged, for this machine. */
async function installBundle(file: string, needs: Needs, progress: Progress): Promise<void> {
  const { cacheFolder } = needs;
  const here = thisMachine();
  const manifest = await readManifest(file);
  requireArchitecture(file, manifest, here);
  const packages = await missingPackages();
  if (packages.length > 0) requireRelease(file, manifest, here, packages);
  const folders = neededFolders(needs).filter((name) => !isCached(cacheFolder, name));
  const lacking = folders.filter((name) => !(`cache/${archiveOf(name)}` in manifest.files));
  requireNothing(file, manifest, here, lacking);
  const folder = join(cacheFolder, UNPACKED);
  await rm(folder, { recursive: true, force: true });
  try {
    progress("checking the file");
    await unpackBundle(file, manifest, folder);
    if (packages.length > 0) await installFetched(join(folder, "packages"), packages, progress);
    await unpackFolders(join(folder, "cache"), cacheFolder, folders, progress);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function thisMachine(): Machine {
  const system = releaseOf(readFileSync("/etc/os-release", "utf8"));
  return { sandlot: version(), architecture: process.arch, system };
}
