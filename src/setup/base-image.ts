/** The root filesystem of the built-in template `base`: plain Debian packages, no image registry needed. */
import { chmodSync, lchownSync, lstatSync, readdirSync } from "node:fs";
import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { NAMESERVER_ADDRESS, SANDBOX_ADDRESS } from "../contract/address-plan.ts";
import { HOSTNAME } from "../contract/hostname.ts";
import { BASE_TEMPLATE } from "../contract/management/base-template.ts";
import { buildFile, hosts, profile } from "../contract/runtime/image-files.ts";
import { chooseImage } from "../images/cached-images.ts";
import { run } from "../system/command.ts";
import { shiftedId } from "../system/id-range.ts";
import { debianPlace, fetchFault } from "./fetch-faults.ts";
import { fetchDebian } from "./fetching.ts";
import { makeImage, type SetupStep } from "./step.ts";

const SUITE = "trixie";
const MAKE_MS = scaled(2_400_000);
const FINISH_MS = scaled(300_000);
/** Bump this when anything below changes. */
const VERSION = 3;

export const BASE_PACKAGES = `
  bash sudo git curl wget ca-certificates python3 python-is-python3 python3-pip python3-venv python3-dev
  build-essential nodejs npm procps iproute2 ncurses-bin jq less iputils-ping socat mount util-linux login passwd
  tzdata openssh-client zip unzip nano xz-utils file
`
  .trim()
  .split(/\s+/);

/** Files of packages that sandboxes do not need: translations, documentation, and 30 MB for gcc's own developers. */
const LEFT_OUT = [
  "/usr/share/doc/*",
  "/usr/share/locale/*",
  "/usr/share/info/*",
  "/usr/share/lintian/*",
  "/usr/bin/*-lto-dump-*",
];

/** The file list of an installed Python package, by the suffix of its metadata folder. */
const FILE_LISTS: Readonly<Record<string, string>> = { ".dist-info": "RECORD", ".egg-info": "installed-files.txt" };

export const BASE_IMAGE = `base-${VERSION}`;

export function baseImageStep(cacheFolder: string, mirror: string | undefined): SetupStep {
  return debianImageStep(cacheFolder, mirror, {
    image: BASE_IMAGE,
    title: "the template base (Debian, two to four minutes)",
    packages: BASE_PACKAGES,
  });
}

interface DebianImage {
  /** Name of the image. It contains a version: bump it when the packages change. */
  image: string;
  title: string;
  /** Must include bash, sudo, passwd and python3, which clients expect of every image. */
  packages: readonly string[];
  /** Shell lines, run inside the image after its packages are installed. */
  finish?: readonly string[];
}

/** Makes a root filesystem of Debian packages, ready for sandboxes. */
export function debianImageStep(
  cacheFolder: string,
  mirror: string | undefined,
  { image, title, packages, finish = [] }: DebianImage,
): SetupStep {
  return {
    title,
    done: () => chooseImage(cacheFolder, image),
    make: (progress) =>
      makeImage(cacheFolder, image, async (folder) => {
        const options = [
          "--variant=apt",
          `--include=${packages.join(",")}`,
          '--aptopt=Apt::Install-Recommends "false"',
          // Crash safety is not needed: an incomplete image is never used.
          "--dpkgopt=force-unsafe-io",
          ...LEFT_OUT.map((pattern) => `--dpkgopt=path-exclude=${pattern}`),
          "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        ];
        const debian = { suite: SUITE, mirror, options, timeoutMs: MAKE_MS };
        await fetchDebian(folder, debian, progress).catch((cause) => {
          throw fetchFault(cause, debianPlace(cacheFolder, mirror));
        });
        progress("adding the user and the network files");
        await provision(folder);
        for (const line of finish) await run(["chroot", folder, "sh", "-ec", line], { timeoutMs: FINISH_MS });
        progress("shifting owners into the sandbox range");
        shiftOwners(folder);
      }),
  };
}

/** Adds what clients expect of the image beyond its packages. */
async function provision(root: string): Promise<void> {
  await run(["chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "--user-group", "user"]);
  await run(["chroot", root, "passwd", "--delete", "user"]);
  await writeFile(join(root, "etc/sudoers.d/user"), "user ALL=(ALL:ALL) NOPASSWD: ALL\n", { mode: 0o440 });
  await mkdir(join(root, "code"));
  await allowInstalls(root);
  await run(["chmod", "-R", "a+rwX", join(root, "code"), join(root, "usr/local")]);
  // mmdebstrap may leave a link to the host's resolver.
  await rm(join(root, "etc/resolv.conf"), { force: true });
  await writeFile(join(root, "etc/resolv.conf"), `nameserver ${NAMESERVER_ADDRESS}\n`);
  await writeFile(join(root, "etc/hostname"), `${HOSTNAME}\n`);
  await writeFile(join(root, "etc/hosts"), hosts(HOSTNAME, SANDBOX_ADDRESS));
  await writeFile(join(root, ".e2b"), buildFile({ templateId: BASE_TEMPLATE.id, buildId: BASE_TEMPLATE.buildId }));
  await writeFile(join(root, "etc/profile"), profile("/bin/bash"));
  // An image must not contain a machine id; each sandbox gets its own.
  await writeFile(join(root, "etc/machine-id"), "");
  await rm(join(root, "var/lib/dbus/machine-id"), { force: true });
}

/**
 * Lets pip and `npm install -g` install into /usr/local, for root and for the user. Debian's pip refuses that because
 * of a marker file (PEP 668), which is diverted so that upgrades of Python do not restore it. To upgrade a Debian
 * package, pip requires a list of its files, which it would remove: with an empty list it leaves them alone, and Python
 * finds the new version first. npm's folder is created here, because the first `sudo npm install -g` would create it
 * for root only.
 */
async function allowInstalls(root: string): Promise<void> {
  for (const marker of new Bun.Glob("usr/lib/python3*/EXTERNALLY-MANAGED").scanSync(root)) {
    const divert = ["dpkg-divert", "--quiet", "--local", "--rename", "--divert", `/${marker}.debian`];
    await run(["chroot", root, ...divert, "--add", `/${marker}`]);
  }
  const packages = join(root, "usr/lib/python3/dist-packages");
  for (const entry of readdirSync(packages, { withFileTypes: true }).filter((each) => each.isDirectory())) {
    const list = FILE_LISTS[extname(entry.name)];
    if (list !== undefined) await appendFile(join(packages, entry.name, list), "");
  }
  await mkdir(join(root, "usr/local/lib/node_modules"), { recursive: true });
}

/**
 * Shifts the owner of every file to its id inside a sandbox. Changing an owner clears set-id bits, so they are
 * restored. It also drops file capabilities, which is intended: a sandbox could not use them, and programs with them
 * would not start.
 */
export function shiftOwners(root: string): void {
  const pending = [root];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    const stat = lstatSync(path);
    lchownSync(path, shiftedId(stat.uid), shiftedId(stat.gid));
    if (stat.isSymbolicLink()) continue;
    if ((stat.mode & 0o6000) !== 0) chmodSync(path, stat.mode & 0o7777);
    if (stat.isDirectory()) for (const name of readdirSync(path)) pending.push(join(path, name));
  }
}
