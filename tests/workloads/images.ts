/**
 * The root filesystems of the workload tests: programs that agents really run, from Debian. Built once by the test run.
 */
import { LONG } from "../../src/base/testing/long.ts";
import type { Config } from "../../src/cli/settings/config.ts";
import { debianImageStep } from "../../src/setup/base-image.ts";
import type { SetupStep } from "../../src/setup/step.ts";
import { MORE_PACKAGES } from "../support/trusting-clients.ts";

const TEST_FILE = "tests/workloads/workloads.test.ts";
const CLIENTS_TEST_FILE = "tests/functional/host/rule-trust.test.ts";

/** Of every sandbox's life: a shell, an owner, tools to look around with. */
const COMMON = ["bash", "sudo", "passwd", "login", "ca-certificates", "curl", "procps", "python3"];

const PROGRAMS =
  "python3-numpy python3-ipykernel python3-jupyter-client nodejs gcc libc6-dev make git sqlite3 " +
  "redis-server postgresql tmux gdb iputils-ping";

const WORKLOADS = {
  image: "workloads-1",
  title: "the image of the workloads' tests (Debian, a minute or two)",
  packages: [...COMMON, ...PROGRAMS.split(" ")],
};

const CHROMIUM = {
  image: "chromium-1",
  title: "the image of the browser's test (Debian with Chromium, a minute or two)",
  packages: [...COMMON, "chromium-headless-shell", "python3-websocket"],
};

const CLIENTS = {
  image: "tls-clients-1",
  title: "the image of the TLS clients' test (Debian with Go and Java, some minutes)",
  packages: MORE_PACKAGES.split(" "),
};

export const CLIENTS_IMAGE = CLIENTS.image;
export const WORKLOADS_IMAGE = WORKLOADS.image;
export const CHROMIUM_IMAGE = CHROMIUM.image;

/** The set-up steps that these test files need. */
export function imageSteps({ cacheFolder, debianMirror }: Config, files: readonly string[]): SetupStep[] {
  const wanted = [
    ...(files.includes(TEST_FILE) ? [WORKLOADS, ...(LONG ? [CHROMIUM] : [])] : []),
    ...(files.includes(CLIENTS_TEST_FILE) && LONG ? [CLIENTS] : []),
  ];
  return wanted.map((image) => debianImageStep(cacheFolder, debianMirror, image));
}
