/** Installs system tools with the host's package manager. */
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { attempt, MINIMAL_ENV, run } from "../system/command.ts";
import type { SetupStep } from "./step.ts";

/** Each command that Sandlot runs, with its Debian package. */
export const COMMANDS: Readonly<Record<string, string>> = {
  ip: "iproute2",
  tc: "iproute2",
  nft: "nftables",
  mmdebstrap: "mmdebstrap",
  "mkfs.btrfs": "btrfs-progs",
  "mkfs.ext4": "e2fsprogs",
  patchelf: "patchelf",
  nsenter: "util-linux",
  unshare: "util-linux",
  taskset: "util-linux",
  mount: "mount",
  openssl: "openssl",
};

export const KEYRING_PACKAGE = "debian-archive-keyring";
const DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const INSTALL_MS = scaled(900_000);

/** Other programs hold apt's locks for minutes, such as the automatic updates of a machine that has just booted. */
const LOCKED_MAX_S = 300;
const APT_GET = ["apt-get", "-q", "-o", `DPkg::Lock::Timeout=${LOCKED_MAX_S}`];
const LISTS_LOCK = "/var/lib/apt/lists/lock";
/** apt waits for the lock of installations, but not for the lock of package lists. */
const LISTS_RETRY = { everyMs: 2_000, times: LOCKED_MAX_S / 2 } as const;

export function missingCommands(commands = COMMANDS): string[] {
  return Object.keys(commands).filter((name) => Bun.which(name, { PATH: MINIMAL_ENV.PATH ?? "" }) === null);
}

/** Packages of missing commands, and Debian's keys if they are missing. */
export async function missingPackages(commands: Readonly<Record<string, string>> = COMMANDS): Promise<string[]> {
  const packages = new Set(missingCommands(commands).map((name) => commands[name] ?? name));
  if (!(await Bun.file(DEBIAN_KEYRING).exists())) packages.add(KEYRING_PACKAGE);
  return [...packages];
}

export async function installPackages(progress: (line: string) => void, commands = COMMANDS): Promise<void> {
  const packages = await missingPackages(commands);
  if (packages.length > 0) await installFrom([], packages, progress);
}

/** `options` of apt-get may name another source than the machine's. */
export async function installFrom(
  options: readonly string[],
  packages: readonly string[],
  progress: (line: string) => void,
): Promise<void> {
  const fix = `FIX: install these packages with your package manager: ${packages.join(" ")}`;
  if (Bun.which("apt-get") === null) throw new Fault(500, `this machine has no apt-get. ${fix}`);
  progress(`installing ${packages.join(", ")}`);
  await updatePackageLists(progress, options);
  try {
    const argv = [...APT_GET, ...options, "install", "-y", "--no-install-recommends", ...packages];
    await run(argv, aptOptions(progress));
  } catch (cause) {
    throw new Fault(500, `apt-get could not install ${packages.join(" ")}. ${fix}`, { cause });
  }
}

/** A stale package list is the usual reason for a failing install; a failing update alone is not fatal. */
export async function updatePackageLists(
  progress: (line: string) => void,
  options: readonly string[] = [],
): Promise<void> {
  await unlockedLists(() => attempt([...APT_GET, ...options, "update"], aptOptions(progress)), progress);
}

function aptOptions(progress: (line: string) => void) {
  const env = { ...MINIMAL_ENV, DEBIAN_FRONTEND: "noninteractive" };
  return { timeoutMs: INSTALL_MS, env, onOutput: lines(progress) };
}

/** Runs `update` again while another program holds the lock of the package lists. */
export async function unlockedLists(
  update: () => Promise<{ stderr: string }>,
  progress: (line: string) => void,
  retry: { everyMs: number; times: number } = LISTS_RETRY,
): Promise<void> {
  for (let tries = 0; tries < retry.times; tries++) {
    const { stderr } = await update();
    if (!stderr.includes(LISTS_LOCK)) return;
    if (tries === 0) progress("waiting until another program has updated the package lists");
    await Bun.sleep(retry.everyMs);
  }
}

export const packagesStep: SetupStep = {
  title: "system tools",
  done: () => missingCommands().length === 0,
  make: (progress) => installPackages(progress),
};

/** Turns chunks of output into whole lines. */
export function lines(sink: (line: string) => void): (chunk: string) => void {
  let rest = "";
  return (chunk) => {
    const parts = (rest + chunk).split(/[\r\n]+/);
    rest = parts.pop() ?? "";
    for (const part of parts) if (part.trim() !== "") sink(part.trim());
  };
}
