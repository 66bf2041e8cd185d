/**
 * Changes kernel settings at start-up and restores them. The first server to change a setting notes its old value; the
 * last server to end restores it. docs/host-changes.md gives the reason for each, and a test compares the two.
 * Settings of page merging change only for a server whose sandboxes share memory.
 */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../system/data-folder.ts";
import { MERGING_FOLDER } from "../system/page-merging.ts";
import { replaceFile } from "../system/replace-file.ts";

interface Setting {
  /** A name of sysctl, or the path of a file in /sys. */
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

/**
 * Pages of a step: stopping ksmd takes until its current step has ended. src/host/ksmd.ts sets the sleep
 * between steps. ksmd's own advisor would make steps of ten pages: it takes all processor time of ksmd since boot for
 * that of the first scan.
 */
const STEP_PAGES = 2_000;
const SLEEP_MS = 20;
const ADVISOR = join(MERGING_FOLDER, "advisor_mode");
const MERGING_RUNS = join(MERGING_FOLDER, "run");

/** Settings of page merging (KSM). `run` is the last and starts it. */
const MERGING_SETTINGS: readonly MergingSetting[] = [
  { name: ADVISOR, exactly: "none" },
  { name: join(MERGING_FOLDER, "pages_to_scan"), exactly: String(STEP_PAGES) },
  { name: join(MERGING_FOLDER, "sleep_millisecs"), exactly: String(SLEEP_MS) },
  { name: MERGING_RUNS, exactly: "1" },
];

interface Noted {
  network: number;
  before: Record<string, string>;
}

const NOTE = "settings-before.json";
const LOCK = "settings";

export function applySettings(data: DataFolder): void {
  apply(data, SETTINGS);
}

/** Starts page merging. False: the operator runs ksmd for other purposes, so its settings stay. */
export function startMerging(data: DataFolder): boolean {
  const before =
    readNote(data.runFolder)?.before[MERGING_RUNS] ??
    notedByOthers(data, { name: MERGING_RUNS }) ??
    readSetting(MERGING_RUNS);
  if (before === "1") return false;
  apply(data, MERGING_SETTINGS);
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
  replaceFile(join(data.runFolder, NOTE), JSON.stringify(noted), 0o644);
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
  const isMerging = noted.before[ADVISOR] !== undefined && notedByOthers(data, { name: ADVISOR }) === undefined;
  // With its advisor, which another program may have started, the kernel refuses other values.
  if (isMerging) writeSetting(ADVISOR, "none");
  // `run` of page merging before its other settings.
  for (const setting of [...SETTINGS, ...MERGING_SETTINGS.toReversed()]) {
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
