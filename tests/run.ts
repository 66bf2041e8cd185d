/**
 * `npm test`: runs every test, lane after lane (tests/lanes.ts). For lanes that need root it first sets up what is
 * missing and cleans up after killed runs, and it runs them inside the outer network. Arguments are parts of paths, or
 * options of `bun test`; with arguments, tests with a time bound run in their own lane. The last line counts passed and
 * failed tests.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../src/base/testing/long.ts";
import { prepare, runscSteps } from "../src/cli/prepare.ts";
import { type Config, loadConfig } from "../src/cli/settings/config.ts";
import { makeOuterNetwork, removeStaleNetworks } from "../src/host/testing/outer-network.ts";
import { installPackages } from "../src/setup/packages.ts";
import type { SetupStep } from "../src/setup/step.ts";
import { resticFolderStep } from "../src/setup/tool-folder.ts";
import { run } from "../src/system/command.ts";
import { Toolbox } from "../src/system/toolbox.ts";
import { isFound, lookUp } from "../src/tls/name-lookup.ts";
import { type BunTestOptions, bunTest, hasPassed, type Outcome, WORKERS } from "./bun-test.ts";
import { runCheckLane } from "./check-lane.ts";
import { filesOfLane, filesWithTimedTests, isSideBySide, LANES, type Lane, laneOf, selectTests } from "./lanes.ts";
import { printSummary } from "./summary.ts";
import { buildContainerImage, containerImageSteps } from "./support/container-image.ts";
import { debianRootSteps } from "./support/debian-root.ts";
import { OWN_MOUNTS } from "./support/own-mounts.ts";
import { s3ServerSteps } from "./support/s3-server.ts";
import { newDataFolder, removeServersOf, removeStaleServers, runFoldersLeftBy } from "./support/server.ts";
import { installOnStockMachine, stockMachineSteps } from "./support/stock-machine.ts";
import { templateStepsFor, usesTemplate } from "./support/templates-of-tests.ts";
import { imageSteps } from "./workloads/images.ts";

/** Tools that tests run on the machine itself, beyond those of the server, with the Debian package of each. */
const TOOLS_OF_TESTS = {
  bash: "bash",
  curl: "curl",
  git: "git",
  python3: "python3",
  openssl: "openssl",
  "docker-registry": "docker-registry",
  microsocks: "microsocks",
  "ld-musl-config": "musl",
};
/** Firewalls of the doctor's tests. Where systemd runs, the package of firewalld would start it on this machine. */
const PACKET_FILTERS_OF_TESTS = {
  ufw: "ufw",
  iptables: "iptables",
  "iptables-legacy": "iptables",
  ...(!existsSync("/run/systemd/system") && { firewalld: "firewalld", "dbus-daemon": "dbus" }),
};
/** The browser that tests view desktop streams with. */
const BROWSER_OF_TESTS = { chromium: "chromium" };
/** Scrapes a server in a long run. */
const PROMETHEUS_OF_TESTS = { prometheus: "prometheus", promtool: "prometheus" };
/** Lets Node and Python resolve names below localhost. The package has no command to check for. */
const NAMES_OF_TESTS = { "names below localhost": "libnss-myhostname" };

const APPLY_SETTINGS = join(import.meta.dir, "support/apply-settings.ts");

const began = performance.now();
const args = process.argv.slice(2);
const { files, options } = selectTests(args);
const isWhole = args.length === 0;
const timed = isWhole ? "apart" : undefined;
/** `.ci/run` names lanes that it has run just before. */
const alreadyRun = (process.env.SANDLOT_TEST_WITHOUT ?? "").split(",");
const lanes = LANES.filter((lane) => !alreadyRun.includes(lane) && filesOfLane(lane, files).length > 0);
// With a name to look for, a lane may have no matching test.
if (!isWhole && lanes.length > 1) options.push("--pass-with-no-tests");
if (LONG) drawSeed();

const privileged = lanes.filter((lane) => lane !== "check");
if (privileged.length > 0 && process.getuid?.() !== 0) {
  console.error("sandlot: these tests need root. FIX: sudo npm test; or npm run check, for all that need none");
  process.exit(1);
}

const outcomes: Outcome[] = [];
if (lanes.includes("check")) {
  const check = isWhole ? runCheckLane(files, { timed, options }) : bunTest(filesOfLane("check", files), { options });
  outcomes.push(await check);
}
if (privileged.length > 0) outcomes.push(...(await runOnMachine(privileged)));
printSummary(outcomes, performance.now() - began);
const isGood = isWhole
  ? outcomes.every(hasPassed)
  : outcomes.some(hasPassed) && outcomes.every(({ failed }) => failed === 0);
process.exit(isGood ? 0 : 1);

async function runOnMachine(chosen: readonly Lane[]): Promise<Outcome[]> {
  const config = loadConfig(settingsOfServer(process.env));
  const ofFiles = [
    ...imageSteps(config, files),
    ...templateStepsFor(config, files),
    ...resticSteps(config),
    ...debianRootSteps(config, files),
    ...s3ServerSteps(files),
    ...stockMachineSteps(config, files),
    ...containerImageSteps(config, files),
  ];
  await prepare(config, [...runscSteps(config), ...ofFiles]);
  // All before the tests: their network has no package servers.
  const install = (commands: Readonly<Record<string, string>>) =>
    installPackages((line) => console.error(`  ${line}`), commands);
  await install(TOOLS_OF_TESTS);
  if (files.some((file) => file.includes("/firewall-check."))) await install(PACKET_FILTERS_OF_TESTS);
  if (files.some((file) => file.startsWith("tests/functional/desktop/"))) await install(BROWSER_OF_TESTS);
  if (LONG && files.some((file) => file.includes("/prometheus"))) await install(PROMETHEUS_OF_TESTS);
  await installOnStockMachine(config, files);
  await buildContainerImage(config, files);
  if (!isFound(await lookUp("api.sandlot.localhost"), "sandlot.localhost")) await install(NAMES_OF_TESTS);
  await removeStaleNetworks();
  const network = await makeOuterNetwork();
  const enter = [...network.enter, ...OWN_MOUNTS];
  const env = { SANDLOT_TEST_RUN: String(process.pid) };
  const found: Outcome[] = [];
  try {
    await removeStaleServers(network.enter);
    await run([...enter, process.execPath, APPLY_SETTINGS, newDataFolder("settings")]);
    for (const lane of chosen) {
      if (isWhole && lane === "performance") {
        const apart = filesWithTimedTests(files).filter((file) => isSideBySide(laneOf(file)));
        found.push(await clocked("timed", bunTest(apart, { enter, env, options, timed: "only" })));
      }
      const own = filesOfLane(lane, files);
      const way: BunTestOptions = { enter, env, options };
      const sideBySide: BunTestOptions = { ...way, workers: WORKERS, timed };
      if (!isWhole || !isSideBySide(lane)) found.push(await clocked(lane, bunTest(own, way)));
      else if (lane === "sandboxes") found.push(...(await clocked(lane, runSandboxes(own, sideBySide))));
      else found.push(await clocked(lane, bunTest(own, sideBySide)));
    }
  } finally {
    await removeServersOf(String(process.pid), network.enter);
    for (const left of runFoldersLeftBy(String(process.pid))) console.error(`left behind by a test: ${left}`);
    await network.remove();
  }
  return found;
}

/** Backups install restic at their first use, which has no package servers in a test. */
function resticSteps({ cacheFolder, debianMirror }: Config): SetupStep[] {
  const isUsed = files.some((file) => /^(?:src|tests\/functional)\/backup\//.test(file));
  return isUsed ? [resticFolderStep(new Toolbox(cacheFolder), debianMirror)] : [];
}

/**
 * Each process has its own servers, and one with a template takes up to a minute to start. So files with templates go
 * to few processes, beside all others. Those have one process more than other lanes, because tests on real sandboxes
 * also wait for the disk.
 */
async function runSandboxes(own: readonly string[], way: BunTestOptions): Promise<Outcome[]> {
  return await Promise.all([
    bunTest(own.filter(usesTemplate), { ...way, workers: Math.ceil(WORKERS / 4) }),
    bunTest(
      own.filter((file) => !usesTemplate(file)),
      { ...way, workers: WORKERS + 1 },
    ),
  ]);
}

/** Says how long it took: where a run could be shorter is seen from this. */
async function clocked<Result>(title: string, tests: Promise<Result>): Promise<Result> {
  const startedMs = performance.now();
  const result = await tests;
  console.error(`${title}: ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
  return result;
}

/** SANDLOT_TEST_LONG, SANDLOT_TEST_SEED and the like are for tests, not for a server. */
function settingsOfServer(env: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("SANDLOT_TEST_")));
}

/** Draws one seed for all tests of this run, unless the environment names one. */
function drawSeed(): void {
  process.env.SANDLOT_TEST_SEED ??= String(crypto.getRandomValues(new Uint32Array(1))[0]);
  console.error(`SANDLOT_TEST_SEED=${process.env.SANDLOT_TEST_SEED}`);
}
