/**
 * Changes kernel settings at start-up and restores them. The first server to change a setting notes its old value; the
 * last server to end restores it. docs/host-changes.md gives the reason for each, and a test compares the two.
 * Settings of page merging change only for a server whose sandboxes share memory.
 */
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../system/data-folder.ts";
import { MERGING_FOLDER } from "../system/page-merging.ts";

interface Setting {
  /** Of sysctl, or the path of a file in /sys. */
  name: string;
  /** Network settings belong to one network namespace. */
  perNetwork?: true;
}

interface RaisedSetting extends Setting {
  /** The required value; settings of sysctl are only ever raised. */
  atLeast: number;
}

interface MergingSetting extends Setting {
  exactly: string;
}

export const SETTINGS: readonly RaisedSetting[] = [
  { name: "net.ipv4.ip_forward", atLeast: 1, perNetwork: true },
  { name: "fs.inotify.max_user_instances", atLeast: 2_147_483_647 },
  { name: "fs.inotify.max_user_watches", atLeast: 2_147_483_647 },
  { name: "kernel.pid_max", atLeast: 4_194_304 },
  { name: "kernel.threads-max", atLeast: 4_194_304 },
  // The resources behind these limits, and inotify, are charged to the memory of the sandbox that uses them, or
  // limited per sandbox. With the host-wide limits raised, no sandbox can exhaust them for others.
  { name: "fs.file-max", atLeast: 1_000_000_000 },
  { name: "net.ipv4.tcp_max_orphans", atLeast: 1_000_000_000 },
  { name: "kernel.pty.max", atLeast: 1_048_576 },
];

/** ksmd looks at every page within this time, as far as its share of a processor allows. */
const SCAN_SECONDS = 60;
/** Pages of a step: whoever stops ksmd waits until its step has ended. src/host/page-merging.ts sets its sleep. */
const STEP_PAGES_MAX = 5_000;
/** The same on kernels where ksmd does not tune itself. */
const STEP_PAGES = 1_000;
const SLEEP_MS = 20;
const MERGING_RUNS = join(MERGING_FOLDER, "run");

/** Settings of page merging (KSM) with at most this share of a processor. `run` is the last and starts it. */
function mergingSettings(maxCpuPercent: number): MergingSetting[] {
  const tunesItself = existsSync(join(MERGING_FOLDER, "advisor_mode"));
  const tuning = tunesItself
    ? [
        { name: "advisor_mode", exactly: "scan-time" },
        { name: "advisor_max_cpu", exactly: String(maxCpuPercent) },
        { name: "advisor_max_pages_to_scan", exactly: String(STEP_PAGES_MAX) },
        { name: "advisor_target_scan_time", exactly: String(SCAN_SECONDS) },
      ]
    : [{ name: "pages_to_scan", exactly: String(STEP_PAGES) }];
  const sleep = { name: "sleep_millisecs", exactly: String(SLEEP_MS) };
  const run = { name: "run", exactly: "1" };
  return [...tuning, sleep, run].map((setting) => ({ ...setting, name: join(MERGING_FOLDER, setting.name) }));
}

interface Noted {
  network: number;
  before: Record<string, string>;
}

const NOTE = "settings-before.json";
const LOCK = "settings";

export function applySettings(data: DataFolder): void {
  apply(data, SETTINGS);
}

/**
 * Starts page merging with at most this share of a processor. False: the operator runs ksmd for other purposes, so its
 * settings stay.
 */
export function startMerging(data: DataFolder, maxCpuPercent: number): boolean {
  const before =
    readNote(data.runFolder)?.before[MERGING_RUNS] ??
    notedByOthers(data, { name: MERGING_RUNS }) ??
    readSetting(MERGING_RUNS);
  if (before === "1") return false;
  apply(data, mergingSettings(maxCpuPercent));
  return true;
}

function apply(data: DataFolder, wanted: readonly (RaisedSetting | MergingSetting)[]): void {
  using _lock = lockOfAllServers(LOCK);
  const noted = readNote(data.runFolder) ?? { network: networkNamespace(), before: {} };
  // Some exist in the initial network namespace only.
  const settings = wanted.filter(({ name }) => existsSync(settingFile(name)));
  for (const setting of settings) {
    noted.before[setting.name] ??= notedByOthers(data, setting) ?? readSetting(setting.name);
  }
  // Before the change: a server killed in between would otherwise record its own values as the original ones.
  const path = join(data.runFolder, NOTE);
  // Atomically: a server killed here must not leave a truncated note.
  writeFileSync(`${path}.new`, JSON.stringify(noted));
  renameSync(`${path}.new`, path);
  for (const setting of settings) {
    const now = readSetting(setting.name);
    if ("exactly" in setting && now !== setting.exactly) writeSetting(setting.name, setting.exactly);
    if ("atLeast" in setting && Number(now) < setting.atLeast) writeSetting(setting.name, String(setting.atLeast));
  }
}

/** Restores settings that no other server on this host needs. Removing its note ends this server's own need. */
export function undoSettings(data: Pick<DataFolder, "runFolder" | "tag">): void {
  using _lock = lockOfAllServers(LOCK);
  const noted = readNote(data.runFolder);
  if (noted === undefined) return;
  // `run` of page merging before its other settings.
  for (const setting of [...SETTINGS, ...mergingSettings(0).toReversed()]) {
    const before = noted.before[setting.name];
    if (before === undefined || notedByOthers(data, setting) !== undefined) continue;
    if (!existsSync(settingFile(setting.name))) continue;
    if (setting.perNetwork && noted.network !== networkNamespace()) continue;
    if (readSetting(setting.name) !== before) writeSetting(setting.name, before);
  }
  rmSync(join(data.runFolder, NOTE));
}

function notedByOthers(
  data: Pick<DataFolder, "tag">,
  setting: Pick<Setting, "name" | "perNetwork">,
): string | undefined {
  for (const folder of otherServers(data.tag)) {
    const noted = readNote(folder);
    if (noted === undefined || (setting.perNetwork && noted.network !== networkNamespace())) continue;
    const before = noted.before[setting.name];
    if (before !== undefined) return before;
  }
  return undefined;
}

function readNote(runFolder: string): Noted | undefined {
  const text = readText(join(runFolder, NOTE));
  return text === undefined ? undefined : (JSON.parse(text) as Noted);
}

function networkNamespace(): number {
  return statSync("/proc/self/ns/net").ino;
}

function settingFile(name: string): string {
  return name.startsWith("/") ? name : `/proc/sys/${name.replaceAll(".", "/")}`;
}

export function readSetting(name: string): string {
  const text = readFileSync(settingFile(name), "utf8").trim();
  // A choice is shown with all its values and the current one in brackets.
  return /\[(.+)\]/.exec(text)?.[1] ?? text;
}

function writeSetting(name: string, value: string): void {
  writeFileSync(settingFile(name), value);
}
