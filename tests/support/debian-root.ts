/**
 * A small Debian for programs of long tests that should neither be installed on this machine nor start services on it:
 * reverse proxies, ACME. Made before the tests, which have no package servers.
 */
import { existsSync } from "node:fs";
import { LONG } from "../../src/base/testing/long.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import { fetchDebian } from "../../src/setup/fetching.ts";
import { makeAtomically, type SetupStep } from "../../src/setup/step.ts";

const PACKAGES = ["nginx-light", "caddy", "haproxy", "certbot", "lego", "pebble"];
/** Increase the number when the packages change. */
const ROOT = "/var/cache/sandlot-tests/debian-2";
const MAKE_MS = 1_200_000;
/** Each of these starts programs of the root. */
const TEST_FILES: readonly string[] = [
  "tests/functional/network/reverse-proxies.test.ts",
  "tests/functional/network/acme.test.ts",
];

export function debianRootSteps(config: Config, files: readonly string[]): SetupStep[] {
  if (!LONG || !files.some((file) => TEST_FILES.includes(file))) return [];
  return [
    debianStep(config, { title: "a Debian with reverse proxies for tests (a minute)", root: ROOT, packages: PACKAGES }),
  ];
}

interface Debian {
  title: string;
  root: string;
  packages: readonly string[];
  /** Without packages: that of small images of containers. */
  variant?: "apt" | "minbase";
}

/** Makes a Debian that is not there yet. */
export function debianStep(
  { debianMirror: mirror }: Config,
  { title, root, packages, variant = "apt" }: Debian,
): SetupStep {
  const include = packages.length === 0 ? [] : [`--include=${packages.join(",")}`];
  const options = [`--variant=${variant}`, ...include, '--aptopt=Apt::Install-Recommends "false"'];
  const debian = { suite: "trixie", mirror, options, timeoutMs: MAKE_MS };
  const make: SetupStep["make"] = (progress) => makeAtomically(root, (folder) => fetchDebian(folder, debian, progress));
  return { title, done: () => existsSync(root), make };
}

/** The command line of a program in this Debian, with `folder` as its /srv. */
export function inDebianRoot(folder: string, argv: readonly string[]): string[] {
  const mounts = ["dev", "proc", "sys"].map((name) => `mount --rbind /${name} ${ROOT}/${name}`);
  const script = [...mounts, `mount --bind ${folder} ${ROOT}/srv`, `exec chroot ${ROOT} "$@"`].join(" && ");
  return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", ...argv];
}
