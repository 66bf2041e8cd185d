// What a fresh clone needs before TypeScript can run: npm packages, and the Bun binary inside them.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, existsSync, constants as fileModes, readFileSync, statSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const project = dirname(dirname(fileURLToPath(import.meta.url)));
const stamp = join(project, "node_modules/.sandlot-installed");
const BUN_MIN_BYTES = 10_000_000;

/** `development`: with the packages that only tests and benchmarks use. */
export async function runOnBun(program, args, { development }) {
  if (process.platform !== "linux") fail(`Sandlot runs on Linux; this is ${process.platform}`);
  if (Number(process.versions.node.split(".")[0]) < 20) fail(`Node 20 or later is needed; this is ${process.version}`);
  installPackages(development);
  const child = spawn(findBun(), [join(project, program), ...args], { stdio: "inherit" });
  // A terminal and systemd signal both processes, so the child may get a signal twice. It decides when to end.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  const { code, signal } = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => resolve({ code, signal }));
  });
  process.exitCode = code ?? (signal === null ? 1 : 128 + constants.signals[signal]);
}

/** `npm ci` once for each state of the lock file. No package here needs its install script. */
function installPackages(development) {
  const lock = createHash("sha256")
    .update(readFileSync(join(project, "package-lock.json")))
    .digest("hex");
  const installed = existsSync(stamp) ? readFileSync(stamp, "utf8") : "";
  if (installed === `${lock} all` || (!development && installed === `${lock} some`)) return;
  console.error("sandlot: installing npm packages");
  const result = spawnSync(
    "npm",
    ["ci", ...(development ? [] : ["--omit=dev"]), "--ignore-scripts", "--no-audit", "--no-fund"],
    {
      cwd: project,
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  if (result.status !== 0) fail("npm ci failed. FIX: see its message above; run `npm ci` in the project folder");
  writeFileSync(stamp, `${lock} ${development ? "all" : "some"}`);
}

/** In its own package, or where an install script that ran before us has moved it. */
function findBun() {
  const name = process.arch === "arm64" ? "bun-linux-aarch64" : "bun-linux-x64";
  const places = [join(project, "node_modules/@oven", name, "bin/bun"), join(project, "node_modules/bun/bin/bun.exe")];
  for (const path of places) {
    try {
      accessSync(path, fileModes.X_OK);
      if (statSync(path).size > BUN_MIN_BYTES) return path;
    } catch {
      // Not in this place.
    }
  }
  return fail(`no Bun binary in ${places.join(" or ")}. FIX: remove node_modules and start again`);
}

function fail(message) {
  console.error(`sandlot: ${message}`);
  process.exit(1);
}
