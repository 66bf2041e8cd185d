/**
 * Changes kernel settings at start-up and restores them. The first server to change a setting notes its old value; the
 * last server to end restores it. docs/host-changes.md gives the reason for each, and a test compares the two.
 */
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../system/data-folder.ts";

interface Setting {
  name: string;
  /** The required value; settings are only ever raised. */
  atLeast: number;
  /** Network settings belong to one network namespace. */
  perNetwork?: true;
}

export const SETTINGS: readonly Setting[] = [
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

interface Noted {
  network: number;
  before: Record<string, number>;
}

const NOTE = "settings-before.json";
const LOCK = "settings";

export function applySettings(data: DataFolder): void {
  using _lock = lockOfAllServers(LOCK);
  const noted = readNote(data.runFolder) ?? { network: networkNamespace(), before: {} };
  // Some exist in the initial network namespace only.
  const settings = SETTINGS.filter(({ name }) => existsSync(settingFile(name)));
  for (const setting of settings) {
    noted.before[setting.name] ??= notedByOthers(data, setting) ?? readSetting(setting.name);
  }
  // Before the change: a server killed in between would otherwise record its own values as the original ones.
  const path = join(data.runFolder, NOTE);
  // Atomically: a server killed here must not leave a truncated note.
  writeFileSync(`${path}.new`, JSON.stringify(noted));
  renameSync(`${path}.new`, path);
  for (const { name, atLeast } of settings) if (readSetting(name) < atLeast) writeSetting(name, atLeast);
}

/** Restores settings that no other server on this host needs. Removing its note ends this server's own need. */
export function undoSettings(data: Pick<DataFolder, "runFolder" | "tag">): void {
  using _lock = lockOfAllServers(LOCK);
  const noted = readNote(data.runFolder);
  if (noted === undefined) return;
  for (const setting of SETTINGS) {
    const before = noted.before[setting.name];
    if (before === undefined || notedByOthers(data, setting) !== undefined) continue;
    if (!existsSync(settingFile(setting.name))) continue;
    if (setting.perNetwork && noted.network !== networkNamespace()) continue;
    if (readSetting(setting.name) !== before) writeSetting(setting.name, before);
  }
  rmSync(join(data.runFolder, NOTE));
}

function notedByOthers(data: Pick<DataFolder, "tag">, setting: Setting): number | undefined {
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
  return `/proc/sys/${name.replaceAll(".", "/")}`;
}

export function readSetting(name: string): number {
  return Number(readFileSync(settingFile(name), "utf8").trim());
}

function writeSetting(name: string, value: number): void {
  writeFileSync(settingFile(name), String(value));
}
