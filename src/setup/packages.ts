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
};

const DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const INSTALL_MS = scaled(600_000);

export function missingCommands(commands = COMMANDS): string[] {
  return Object.keys(commands).filter((name) => Bun.which(name, { PATH: MINIMAL_ENV.PATH ?? "" }) === null);
}

async function missingPackages(commands: Readonly<Record<string, string>>): Promise<string[]> {
  const packages = new Set(missingCommands(commands).map((name) => commands[name] ?? name));
  if (!(await Bun.file(DEBIAN_KEYRING).exists())) packages.add("debian-archive-keyring");
  return [...packages];
}

export async function installPackages(progress: (line: string) => void, commands = COMMANDS): Promise<void> {
  const packages = await missingPackages(commands);
  if (packages.length === 0) return;
  const fix = `FIX: install these packages with your package manager: ${packages.join(" ")}`;
  if (Bun.which("apt-get") === null) throw new Fault(500, `this machine has no apt-get. ${fix}`);
  progress(`installing ${packages.join(", ")}`);
  const env = { ...MINIMAL_ENV, DEBIAN_FRONTEND: "noninteractive" };
  // A stale package list is the usual reason for a failing install; a failing update alone is not fatal.
  await attempt(["apt-get", "update", "-q"], { timeoutMs: INSTALL_MS, env, onOutput: lines(progress) });
  try {
    await run(["apt-get", "install", "-y", "-q", "--no-install-recommends", ...packages], {
      timeoutMs: INSTALL_MS,
      env,
      onOutput: lines(progress),
    });
  } catch (cause) {
    throw new Fault(500, `apt-get could not install ${packages.join(" ")}. ${fix}`, { cause });
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
