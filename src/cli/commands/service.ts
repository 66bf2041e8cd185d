/** `sandlot install` and `sandlot uninstall`: the server as a systemd service. */
import { existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { removeCache } from "../../setup/cache-removal.ts";
import { teardown } from "../../setup/teardown.ts";
import { attempt, run } from "../../system/command.ts";
import { DataFolder, otherServers } from "../../system/data-folder.ts";
import { isRunningSystemd } from "../../system/service-notices.ts";
import { requireRoot } from "../prepare.ts";
import { requireFree } from "../server/listeners.ts";
import { runningServer } from "../server-file.ts";
import type { Config } from "../settings/config.ts";
import { CONFIG_FILE_DEFAULT } from "../settings/settings.ts";
import { down } from "./down.ts";
import { removeUnit, requireOwnUnit } from "./service-files.ts";
import { requireLastingFolder, requireNoTracing, requireSettingsInFile } from "./service-requirements.ts";
import { SERVICE, UNIT_FILE, unitText } from "./service-unit.ts";
import { setUpMachine } from "./up.ts";

const PROJECT = join(import.meta.dir, "../../..");
const WATCHDOG_MS = scaled(60_000);
/** Longer than any request that the server finishes before it ends. */
const STOP_MS = scaled(300_000);
const SYSTEMCTL_MS = STOP_MS + scaled(30_000);
/** The unit has no timeout for its start, which may adopt thousands of sandboxes. */
const RESTART_MS = STOP_MS + scaled(600_000);
const JOURNAL_LINES = 20;
/** Longer text of a failed start would hide what to do. */
const JOURNAL_MAX_CHARS = 4000;

/** `bundle`: a file of `sandlot bundle`. */
export async function install(config: Config, bundle?: string): Promise<number> {
  requireRoot();
  requireSystemd();
  requireSettingsInFile(process.env);
  requireNoTracing(process.env);
  requireLastingFolder(PROJECT);
  requireOwnUnit();
  await requireNoOtherServer(config);
  await setUpMachine(config, bundle);
  writeSettingsFile();
  writeFileSync(UNIT_FILE, await unitOf(PROJECT), { mode: 0o644 });
  await systemctl("daemon-reload");
  await systemctl("enable", "--quiet", SERVICE);
  console.error("sandlot: starting the service");
  // Sandboxes of a running service keep running, and the new server adopts them.
  const started = await attempt(["systemctl", "restart", SERVICE], { timeoutMs: RESTART_MS });
  if (started.exitCode !== 0) throw await failedStart(started.stderr);
  const { keyFile } = new DataFolder(config.dataFolder);
  console.log(`sandlot: the service runs now and starts with the machine

  state     sandlot status
  log       journalctl -u ${SERVICE}
  settings  ${CONFIG_FILE_DEFAULT}, then systemctl restart ${SERVICE}
  data      ${config.dataFolder}
  API key   ${keyFile}
  remove    sandlot uninstall`);
  return 0;
}

export async function uninstall(config: Config, { withData }: { withData: boolean }): Promise<number> {
  requireRoot();
  requireSettingsInFile(process.env);
  await removeService(withData);
  await down(config);
  if (!withData) {
    const kept = [config.dataFolder, `${config.dataFolder}-trust`, config.cacheFolder, dirname(CONFIG_FILE_DEFAULT)];
    const there = kept.filter((path) => existsSync(path));
    if (there.length > 0) console.log(`sandlot: kept ${there.join(", ")}; \`sandlot uninstall --data\` removes them`);
    return 0;
  }
  await removeData(config);
  console.log("sandlot: the service and its data are removed");
  return 0;
}

async function removeService(withData: boolean): Promise<void> {
  requireOwnUnit();
  const isThere = existsSync(UNIT_FILE);
  if (isThere && isRunningSystemd()) await systemctl("disable", "--quiet", "--now", SERVICE);
  removeUnit({ changes: withData });
  if (!isRunningSystemd()) return;
  await systemctl("daemon-reload");
  // systemd remembers a failed unit without its file. It has none if the service did not fail.
  await attempt(["systemctl", "reset-failed", SERVICE], { timeoutMs: SYSTEMCTL_MS });
}

async function removeData({ dataFolder, cacheFolder }: Config): Promise<void> {
  if (DataFolder.isAt(dataFolder)) await teardown(new DataFolder(dataFolder), cacheFolder, { keepData: false });
  rmSync(`${dataFolder}-trust`, { recursive: true, force: true });
  const kept = await removeCache(cacheFolder);
  if (kept !== undefined) console.log(`sandlot: ${kept}`);
  rmSync(CONFIG_FILE_DEFAULT, { force: true });
  removeEmpty(dirname(CONFIG_FILE_DEFAULT));
  if (otherServers("").length === 0) rmSync("/run/sandlot", { recursive: true, force: true });
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Missing, or the operator's own files are in it.
  }
}

function requireSystemd(): void {
  if (isRunningSystemd()) return;
  throw new Fault(
    409,
    "systemd does not run on this machine, so there can be no service. FIX: let your own service manager run " +
      "`sandlot up`, and send SIGTERM to stop it",
  );
}

async function requireNoOtherServer(config: Config): Promise<void> {
  const servicePid = await mainPid();
  const data = DataFolder.isAt(config.dataFolder) ? new DataFolder(config.dataFolder) : undefined;
  if (data?.inUse && runningServer(data) !== servicePid) {
    throw new Fault(
      409,
      `a server that is not the service runs on ${config.dataFolder} (pid ${runningServer(data) ?? "unknown"}). ` +
        "FIX: stop it with Ctrl-C or SIGTERM; its sandboxes keep running, and the service adopts them",
    );
  }
  if (servicePid === undefined) {
    await requireFree(config.listen, `FIX: stop the program that uses it, or set "listen" in ${CONFIG_FILE_DEFAULT}`);
  }
}

/** Undefined: the service does not run. */
export async function mainPid(): Promise<number | undefined> {
  return Number(await systemctl("show", "--property=MainPID", "--value", SERVICE)) || undefined;
}

function writeSettingsFile(): void {
  mkdirSync(dirname(CONFIG_FILE_DEFAULT), { recursive: true, mode: 0o755 });
  if (!existsSync(CONFIG_FILE_DEFAULT)) writeFileSync(CONFIG_FILE_DEFAULT, "{}\n", { mode: 0o600 });
}

async function unitOf(project: string): Promise<string> {
  return unitText({
    bun: process.execPath,
    main: join(project, "src/cli/main.ts"),
    page: join(project, "docs/install.md"),
    watchdogMs: WATCHDOG_MS,
    stopMs: STOP_MS,
    systemdVersion: Number(/^systemd (\d+)/.exec(await systemctl("--version"))?.[1] ?? 0),
  });
}

async function failedStart(output: string): Promise<Fault> {
  const { stdout } = await attempt([
    "journalctl",
    "-u",
    SERVICE,
    "-n",
    String(JOURNAL_LINES),
    "-o",
    "cat",
    "--no-pager",
  ]);
  const cause = new Error(`${output.trim()}\n${stdout.slice(-JOURNAL_MAX_CHARS).trim()}`);
  const fix = "FIX: see below; systemd tries again every minute until then, or `sandlot uninstall` removes it";
  return new Fault(500, `the service is installed, but does not start. ${fix}`, { cause });
}

async function systemctl(...args: string[]): Promise<string> {
  return await run(["systemctl", ...args], { timeoutMs: SYSTEMCTL_MS });
}
