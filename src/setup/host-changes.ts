/**
 * What start-up changes in the machine's settings, and the way back. The first server to change a setting notes what
 * was there; the last one to go puts it back. docs/host-changes.md lists the same settings, and a test compares the
 * two.
 */
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DataFolder, lockOfAllServers, otherServers, readText } from "../system/data-folder.ts";

interface Setting {
  name: string;
  /** What we need; only ever raised. */
  atLeast: number;
  /** Settings of the network belong to one network namespace. */
  perNetwork: boolean;
  why: string;
}

export const SETTINGS: readonly Setting[] = [
  {
    name: "net.ipv4.ip_forward",
    atLeast: 1,
    perNetwork: true,
    why: "forwarding of packets of sandboxes",
  },
  {
    name: "fs.inotify.max_user_instances",
    atLeast: 2_147_483_647,
    perNetwork: false,
    why: "one limit for all sandboxes",
  },
  {
    name: "fs.inotify.max_user_watches",
    atLeast: 2_147_483_647,
    perNetwork: false,
    why: "one limit for all sandboxes",
  },
  { name: "kernel.pid_max", atLeast: 4_194_304, perNetwork: false, why: "one limit for processes of all sandboxes" },
  {
    name: "kernel.threads-max",
    atLeast: 4_194_304,
    perNetwork: false,
    why: "one limit for processes of all sandboxes",
  },
  // What these count, and inotify, is paid for with the memory of the sandbox that has it, or is bounded for each: with
  // these out of the way, nobody uses up what others need.
  { name: "fs.file-max", atLeast: 1_000_000_000, perNetwork: false, why: "one limit for open files of all sandboxes" },
  {
    name: "net.ipv4.tcp_max_orphans",
    atLeast: 1_000_000_000,
    perNetwork: false,
    why: "one limit for orphaned connections of all sandboxes",
  },
  { name: "kernel.pty.max", atLeast: 1_048_576, perNetwork: false, why: "one limit for terminals of all sandboxes" },
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
  // Some are shown in the first network namespace alone.
  const settings = SETTINGS.filter(({ name }) => existsSync(settingFile(name)));
  for (const setting of settings) {
    noted.before[setting.name] ??= notedByOthers(data, setting) ?? readSetting(setting.name);
  }
  // First, or one that is killed in between would leave its own settings as those that were there.
  const path = join(data.runFolder, NOTE);
  // In one step: a server that is killed here must not leave half a note, which nobody could read.
  writeFileSync(`${path}.new`, JSON.stringify(noted));
  renameSync(`${path}.new`, path);
  for (const { name, atLeast } of settings) if (readSetting(name) < atLeast) writeSetting(name, atLeast);
}

/** Puts back what no other server on this machine still needs. With its note gone, this one needs nothing any more. */
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
