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
/** Bumped when what is below changes. */
const VERSION = 3;

export const BASE_PACKAGES = [
  "bash",
  "sudo",
  "git",
  "curl",
  "wget",
  "ca-certificates",
  "python3",
  "python-is-python3",
  "python3-pip",
  "python3-venv",
  "python3-dev",
  "build-essential",
  "nodejs",
  "npm",
  "procps",
  "iproute2",
  "ncurses-bin",
  "jq",
  "less",
  "iputils-ping",
  "socat",
  "mount",
  "util-linux",
  "login",
  "passwd",
  "tzdata",
  "openssh-client",
  "zip",
  "unzip",
  "nano",
  "xz-utils",
  "file",
];

/** Files of packages that sandboxes do without: translations, documentation, and 30 MB for developers of gcc itself. */
const LEFT_OUT = [
  "/usr/share/doc/*",
  "/usr/share/locale/*",
  "/usr/share/info/*",
  "/usr/share/lintian/*",
  "/usr/bin/*-lto-dump-*",
];

/** Where pip looks for the files of an installed Python package, by the kind of the folder that tells of it. */
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
  /** Its name below the images; bears a version, which is bumped when its packages change. */
  image: string;
  title: string;
  /** What clients expect of every image needs bash, sudo, passwd and python3 among them. */
  packages: readonly string[];
  /** Lines for the shell, run in it when its packages are there. */
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
          // Nothing here needs to survive a crash half-way: an image is seen only when it is whole.
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

/** What clients expect of the image beyond its packages. */
async function provision(root: string): Promise<void> {
  await run(["chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "--user-group", "user"]);
  await run(["chroot", root, "passwd", "--delete", "user"]);
  await writeFile(join(root, "etc/sudoers.d/user"), "user ALL=(ALL:ALL) NOPASSWD: ALL\n", { mode: 0o440 });
  await mkdir(join(root, "code"));
  await allowInstalls(root);
  await run(["chmod", "-R", "a+rwX", join(root, "code"), join(root, "usr/local")]);
  // mmdebstrap may leave the machine's resolver as a link.
  await rm(join(root, "etc/resolv.conf"), { force: true });
  await writeFile(join(root, "etc/resolv.conf"), `nameserver ${NAMESERVER_ADDRESS}\n`);
  await writeFile(join(root, "etc/hostname"), `${HOSTNAME}\n`);
  await writeFile(join(root, "etc/hosts"), hosts(HOSTNAME, SANDBOX_ADDRESS));
  await writeFile(join(root, ".e2b"), buildFile({ templateId: BASE_TEMPLATE.id, buildId: BASE_TEMPLATE.buildId }));
  await writeFile(join(root, "etc/profile"), profile("/bin/bash"));
  // Each sandbox gets its own; an image must carry none.
  await writeFile(join(root, "etc/machine-id"), "");
  await rm(join(root, "var/lib/dbus/machine-id"), { force: true });
}

/**
 * pip and `npm install -g` install into /usr/local, for root and for the user alike. Debian has pip refuse that by a
 * marker file (PEP 668); it is moved aside such that upgrades of Python do not bring it back. To upgrade a package of
 * Debian, pip demands a list of its files, which it would remove: with an empty list it leaves them alone, and the new
 * version is found first. The folder of npm is made here: made by the first `sudo npm install -g`, it would be root's
 * alone.
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
 * Gives every file the owner it has inside a sandbox. Changing an owner clears set-id bits, so those are put back; it
 * also drops file capabilities, which is wanted: a sandbox could not use them and programs carrying them would not
 * start.
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
