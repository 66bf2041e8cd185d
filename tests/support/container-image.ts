/**
 * The image of Containerfile for a long test, made with podman on a machine of its own. Its base is a Debian of
 * packages instead of a registry's.
 */
import { readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { LONG } from "../../src/base/testing/long.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import type { SetupStep } from "../../src/setup/step.ts";
import { debianStep } from "./debian-root.ts";
import { StockMachine } from "./stock-machine.ts";

const PROJECT = join(import.meta.dir, "../..");
const TEST_FILE = "tests/functional/install/container.test.ts";
/** Increase the numbers when the packages change. */
const PODMAN_ROOT = "/var/cache/sandlot-tests/podman-1";
const BASE_ROOT = "/var/cache/sandlot-tests/base-1";
/** What podman keeps. Made again in each long run: the image depends on the sources. */
const PODMAN_FOLDER = "/var/cache/sandlot-tests/podman";
const SETTINGS_FILE = join(PODMAN_FOLDER, "containers.conf");
const BASE = "localhost/debian:13";

export const IMAGE = "localhost/sandlot";

export function containerImageSteps(config: Config, files: readonly string[]): SetupStep[] {
  if (!isUsed(files)) return [];
  const packages = ["podman", "crun", "nftables"];
  return [
    debianStep(config, { title: "a Debian with podman for tests (a minute)", root: PODMAN_ROOT, packages }),
    debianStep(config, { title: "a small Debian for tests", root: BASE_ROOT, packages: [], variant: "minbase" }),
  ];
}

/** Before the tests, which have no package servers. */
export async function buildContainerImage({ debianMirror }: Config, files: readonly string[]): Promise<void> {
  if (!isUsed(files)) return;
  console.error("sandlot: building the image of Containerfile for tests (six minutes or more)");
  await rm(PODMAN_FOLDER, { recursive: true, force: true });
  await mkdir(PODMAN_FOLDER, { recursive: true });
  // By default it raises limits, which root may not do everywhere.
  await writeFile(
    SETTINGS_FILE,
    `[containers]\ndefault_ulimits = ${JSON.stringify([ulimit("nofile"), ulimit("nproc")])}\n`,
  );
  await using machine = await podmanMachine(join(PODMAN_FOLDER, "machine"), [PROJECT, BASE_ROOT], true);
  // crun refuses hybrid cgroups. In tests it is not mounted anyway.
  await machine.run(["sh", "-c", "/srv/busybox umount /sys/fs/cgroup/unified 2> /dev/null || true"]);
  const importBase = `tar -C ${BASE_ROOT} -c . | ${podman("import", "-", BASE).join(" ")}`;
  await machine.run(["sh", "-ec", importBase]);
  const mirror = debianMirror === undefined ? [] : [`--env=SANDLOT_DEBIAN_MIRROR=${debianMirror}`];
  const registry = ["--volume=/srv:/srv:ro", "--volume=/srv/npmrc:/root/.npmrc:ro"];
  const options = ["--network=host", `--build-arg=BASE=${BASE}`, ...registry, ...mirror, "--format=docker"];
  await machine.run(podman("build", ...options, `--tag=${IMAGE}`, PROJECT));
}

/** `same`: paths of this machine that are the same there. */
export async function podmanMachine(
  folder: string,
  same: readonly string[],
  isConnected = false,
): Promise<StockMachine> {
  return await StockMachine.start({ folder, root: PODMAN_ROOT, same: [PODMAN_FOLDER, ...same], isConnected });
}

/** A command line of the machine with podman. */
export function podman(...args: readonly string[]): string[] {
  const folders = ["--root", join(PODMAN_FOLDER, "storage"), "--runroot", "/run/containers/storage"];
  return ["env", `CONTAINERS_CONF=${SETTINGS_FILE}`, "podman", ...folders, ...args];
}

function isUsed(files: readonly string[]): boolean {
  return LONG && files.includes(TEST_FILE);
}

/** This process's own limit. */
function ulimit(name: "nofile" | "nproc"): string {
  const title = { nofile: "Max open files", nproc: "Max processes" }[name];
  const line =
    readFileSync("/proc/self/limits", "utf8")
      .split("\n")
      .find((each) => each.startsWith(title)) ?? "";
  const [, hard = ""] = line.slice(title.length).trim().split(/\s+/);
  const value = hard === "unlimited" ? "-1" : hard;
  return `${name}=${value}:${value}`;
}
