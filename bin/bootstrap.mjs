// What Sandlot needs before TypeScript can run: npm packages, and the Bun binary inside them. npm has installed them
// beside an installed package; a fresh clone has none yet.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, existsSync, constants as fileModes, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(import.meta.url);
const project = dirname(dirname(file));
const lockFile = join(project, "package-lock.json");
/** npm's record of what it has installed. */
const installedFile = join(project, "node_modules/.package-lock.json");
const BUN_MIN_BYTES = 10_000_000;

/** `development`: with the packages that only tests and benchmarks use. */
export async function runOnBun(program, args, { development }) {
  if (process.platform !== "linux") fail(`Sandlot runs on Linux; this is ${process.platform}`);
  if (Number(process.versions.node.split(".")[0]) < 20) fail(`Node 20 or later is needed; this is ${process.version}`);
  // Under sudo or a version manager, npm is only beside this Node.
  process.env.PATH = `${process.env.PATH ?? ""}:${dirname(process.execPath)}`;
  if (isClone() && !isInstalled(development)) installOnce(development);
  // Bun runs what files of its folder say (bunfig.toml, tsconfig.json, .env). The caller's folder may belong to others.
  const env = { ...process.env, INIT_CWD: process.cwd() };
  const child = spawn(findBun(), [join(project, program), ...args], { stdio: "inherit", cwd: project, env });
  // A terminal and systemd signal both processes, so the child may get a signal twice. It decides when to end.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  const { code, signal } = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => resolve({ code, signal }));
  });
  process.exitCode = code ?? (signal === null ? 1 : 128 + constants.signals[signal]);
}

/** npm never packs the lock file of a project. */
function isClone() {
  return existsSync(lockFile);
}

/** Whether npm has installed what the lock file says, however it was started. Optional packages are for other machines. */
function isInstalled(development) {
  if (!existsSync(installedFile)) return false;
  const [wanted, installed] = [lockFile, installedFile].map((path) => JSON.parse(readFileSync(path, "utf8")).packages);
  return Object.entries(wanted).every(([path, { version, integrity, dev, optional }]) => {
    if (path === "" || (dev && !development)) return true;
    const found = installed[path];
    return found === undefined ? optional === true : found.version === version && found.integrity === integrity;
  });
}

/** Runs this file under a lock: of several first commands at once, one installs and the others wait for it. */
function installOnce(development) {
  console.error("sandlot: installing npm packages");
  const argv = [lockFile, process.execPath, file, development ? "all" : "some"];
  const result = spawnSync("flock", argv, { stdio: ["ignore", "inherit", "inherit"] });
  if (result.error) fail(`flock did not start (${result.error.message}). FIX: install the package util-linux`);
  if (result.status !== 0) process.exit(1);
}

/**
 * No package here needs its install script. `npm ci` removes all packages first, so it does not add those of tests: a
 * server may be running from this clone.
 */
function installPackages(development) {
  if (isInstalled(development)) return;
  const command = isInstalled(false) ? ["install", "--no-save"] : ["ci", ...(development ? [] : ["--omit=dev"])];
  const argv = [...command, "--ignore-scripts", "--no-audit", "--no-fund"];
  const result = spawnSync("npm", argv, { cwd: project, stdio: ["ignore", "ignore", "inherit"] });
  if (result.status !== 0) {
    fail(`npm ${command[0]} failed. FIX: see its message above; run \`npm ci\` in the project folder`);
  }
}

/** In its own package, or where an install script that ran before us has moved it. */
function findBun() {
  const name = process.arch === "arm64" ? "bun-linux-aarch64" : "bun-linux-x64";
  const { resolve } = createRequire(import.meta.url);
  for (const file of [`@oven/${name}/bin/bun`, "bun/bin/bun.exe"]) {
    try {
      const path = resolve(file);
      accessSync(path, fileModes.X_OK);
      if (statSync(path).size > BUN_MIN_BYTES) return path;
    } catch {
      // Not in this place.
    }
  }
  const fix = isClone() ? "remove node_modules and start again" : "install the package sandlot again";
  return fail(`the npm package @oven/${name} is not installed for ${project}. FIX: ${fix}`);
}

function fail(message) {
  console.error(`sandlot: ${message}`);
  process.exit(1);
}

if (process.argv[1] === file) installPackages(process.argv[2] === "all");
