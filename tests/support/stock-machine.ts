/**
 * A machine of its own for long tests that install Sandlot as operators do: a Debian with Node and npm only, or with
 * other packages, in its own mount and network namespaces. It shares the kernel, the processes and /run/sandlot with
 * this machine, so that servers of other tests take it for what it is: one more server.
 */
import { existsSync, mkdirSync } from "node:fs";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { LONG } from "../../src/base/testing/long.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import type { SetupStep } from "../../src/setup/step.ts";
import { run } from "../../src/system/command.ts";
import { Toolbox } from "../../src/system/toolbox.ts";
import { debianStep } from "./debian-root.ts";
import { npm } from "./npm.ts";

const PROJECT = join(import.meta.dir, "../..");
const PACKAGES = ["nodejs", "npm"];
/** Increase the number when the packages change. */
const STOCK_ROOT = "/var/cache/sandlot-tests/node-1";
/** Made again in each long run: its content depends on the sources. */
const INSTALLED = "/var/cache/sandlot-tests/installed";
/** Folders of {@link INSTALLED}: what installing has added to the root, and files for /srv. */
const ADDED = join(INSTALLED, "added");
const SHARED = join(INSTALLED, "srv");
const MAKE_MS = 1_200_000;
const TEST_FOLDER = "tests/functional/install/";
const PACKAGE_TESTS = `${TEST_FOLDER}npm-package.test.ts`;

/** Paths on every machine. */
export const PACKAGE = "/srv/sandlot.tgz";
export const BUNDLE = "/srv/sandlot.bundle";
export const SANDLOT = "/usr/local/bin/sandlot";

const SCRIPT = `set -e
root=$1 lower=$2 upper=$3 run=$4; shift 4
ip link set lo up
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper/changes,workdir=$upper/work" "$root"
mount -t sysfs sysfs "$root/sys"
for path in /dev /proc /sys/fs/cgroup /run/sandlot "$@"; do
  mkdir -p "$root$path"
  mount --rbind "$path" "$root$path"
done
mount --bind "$run" "$root/srv"
mkdir "$root/old"
cd "$root"
pivot_root . old
/srv/busybox umount -l /old
rmdir /old
echo ready
# Until the test that started it has ended.
exec cat > /dev/null`;

interface Given {
  /** For its changes. Its parent exists on the new machine under the same path. */
  folder: string;
  /** Its Debian, if it is not the one with Node. */
  root?: string;
  /** With Sandlot installed from npm, and everything that its first start fetches. */
  isInstalled?: boolean;
  /** Paths of this machine that are the same there. */
  same?: readonly string[];
  /** With this machine's network, for setup. */
  isConnected?: boolean;
}

export class StockMachine implements AsyncDisposable {
  private constructor(
    private readonly keeper: Bun.Subprocess,
    /** Prefix of commands on this machine that run in the network of that one. */
    readonly enterNetwork: readonly string[],
  ) {}

  static async start({ folder, root = STOCK_ROOT, isInstalled, same = [], isConnected }: Given): Promise<StockMachine> {
    const [mounted, changes] = [join(folder, "root"), join(folder, "changes")];
    for (const path of [mounted, changes, join(folder, "work"), "/run/sandlot"]) mkdirSync(path, { recursive: true });
    const lower = isInstalled ? `${ADDED}/changes:${root}` : root;
    const namespaces = ["--mount", "--propagation=private", ...(isConnected ? [] : ["--net"])];
    const argv = ["unshare", ...namespaces, "sh", "-c", SCRIPT, "sh", mounted, lower, folder, SHARED, ...same];
    const env = { PATH: process.env.PATH ?? "" };
    const keeper = Bun.spawn(argv, { stdio: ["pipe", "pipe", "pipe"], env });
    const { value } = await keeper.stdout.getReader().read();
    if (new TextDecoder().decode(value) !== "ready\n") {
      throw new Error(`the machine did not start: ${await new Response(keeper.stderr).text()}`);
    }
    return new StockMachine(keeper, ["nsenter", `--net=/proc/${keeper.pid}/ns/net`, "--"]);
  }

  /** The command line that runs another one there, with an environment that has nothing of this one. */
  enter(argv: readonly string[], settings: Readonly<Record<string, string>> = {}): string[] {
    const env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"];
    for (const [name, value] of Object.entries(settings)) env.push(`${name}=${value}`);
    const mounts = `--mount=/proc/${this.keeper.pid}/ns/mnt`;
    const [network = "", ...rest] = this.enterNetwork;
    return [network, mounts, ...rest, "/usr/bin/env", "-i", ...env, ...argv];
  }

  async run(argv: readonly string[], settings?: Readonly<Record<string, string>>): Promise<string> {
    return await run(this.enter(argv, settings), { timeoutMs: MAKE_MS });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.keeper.kill("SIGKILL");
    await this.keeper.exited;
  }
}

export function stockMachineSteps(config: Config, files: readonly string[]): SetupStep[] {
  if (!LONG || !files.includes(PACKAGE_TESTS)) return [];
  return [
    debianStep(config, { title: "a Debian with Node for tests (two minutes)", root: STOCK_ROOT, packages: PACKAGES }),
  ];
}

/**
 * Installs from npm, and makes a bundle: before the tests, which have no package servers. It is no step of the setup,
 * because `sandlot bundle` sets up the same cache.
 */
export async function installOnStockMachine(config: Config, files: readonly string[]): Promise<void> {
  if (!LONG || !files.some((file) => file.startsWith(TEST_FOLDER))) return;
  await rm(INSTALLED, { recursive: true, force: true });
  await mkdir(SHARED, { recursive: true });
  await copyFile(new Toolbox(config.cacheFolder).busybox, join(SHARED, "busybox"));
  await run(["chmod", "755", join(SHARED, "busybox")]);
  await writeNpmSettings(SHARED, "/srv");
  if (files.includes(PACKAGE_TESTS)) await installPackage(config);
}

async function installPackage({ cacheFolder, debianMirror }: Config): Promise<void> {
  await npm(["pack", "--silent", "--pack-destination", SHARED], PROJECT);
  await run(["sh", "-c", `mv ${SHARED}/sandlot-*.tgz ${SHARED}/sandlot.tgz`]);
  await mkdir(join(ADDED, "changes/root"), { recursive: true, mode: 0o700 });
  const npmrc = join(ADDED, "changes/root/.npmrc");
  await copyFile(join(SHARED, "npmrc"), npmrc);
  const settings: Record<string, string> = { SANDLOT_CACHE: cacheFolder };
  if (debianMirror !== undefined) settings.SANDLOT_DEBIAN_MIRROR = debianMirror;
  try {
    // What this cache has need not be fetched again.
    await using machine = await StockMachine.start({ folder: ADDED, isConnected: true, same: [cacheFolder] });
    await machine.run(["npm", "install", "-g", PACKAGE]);
    // From now on npx finds it in npm's cache.
    await machine.run(["npx", "--yes", `--package=${PACKAGE}`, "--", "sandlot", "--version"]);
    await machine.run([SANDLOT, "bundle", BUNDLE], settings);
  } finally {
    await rm(npmrc);
  }
}

/** Writes an npmrc with which another root, which has the folder at `there`, reaches what this machine reaches. */
async function writeNpmSettings(folder: string, there: string): Promise<void> {
  const [registry, cafile] = await Promise.all(
    ["registry", "cafile"].map(async (key) => (await npm(["config", "get", key], PROJECT)).trim()),
  );
  const lines = [`registry=${registry}`];
  if (cafile !== undefined && existsSync(cafile)) {
    await copyFile(cafile, join(folder, "certificates.crt"));
    lines.push(`cafile=${there}/certificates.crt`);
  }
  await writeFile(join(folder, "npmrc"), `${lines.join("\n")}\n`);
}
