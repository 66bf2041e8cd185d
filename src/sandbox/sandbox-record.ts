/**
 * The facts by which the host finds a sandbox again after the server was killed. The record is in the run folder beside
 * the bundle; a reboot deletes the records together with the processes.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";
import type { Egress, SandboxKind } from "../contract/internal/host.ts";
import type { RuntimeName } from "../contract/runtime-name.ts";
import { otherServers, readText, sandboxesIn } from "../system/data-folder.ts";
import { replaceFile } from "../system/replace-file.ts";
import { startTicks } from "../system/start-ticks.ts";
import type { OutsideMount } from "./runtime/runtime.ts";

export interface SandboxRecord {
  id: string;
  slot: number;
  disk: string;
  /** The host's user id of root inside. */
  firstId: number;
  cgroup: string;
  pid: number;
  rootPid: number;
  /** Start time of `pid` in clock ticks since boot; it differs if another process reuses the pid. */
  pidStartTicks: string;
  controlSecret: string;
  egress: Egress;
  kind: SandboxKind;
  wall: RuntimeName;
  guestFolder: string;
  /** Mounts from outside, for the next checkpoint. Paths in the sandbox's own folder start with OWN_FOLDER. */
  mounts: OutsideMount[];
  /** Once this checkpoint exists, the sandbox is paused, and its remaining processes are leftovers. */
  pausingInto?: string;
}

export function writeRecord(folder: string, record: SandboxRecord): void {
  replaceFile(join(folder, "record.json"), JSON.stringify(record));
}

/** Facts of the request for a start or restore. */
type RequestedFacts = Pick<SandboxRecord, "id" | "kind" | "egress" | "cgroup">;

/** Writes the record of a sandbox whose processes exist, and returns it. */
export function writeNewRecord(
  { folder, id, kind, egress, cgroup }: RequestedFacts & { folder: string },
  made: Omit<SandboxRecord, keyof RequestedFacts | "pidStartTicks">,
): SandboxRecord {
  const pidStartTicks = startTicks(made.pid);
  if (pidStartTicks === undefined) throw new Fault(500, "the sandbox ended as soon as it was made");
  const record = { id, kind, egress, cgroup, pidStartTicks, ...made };
  writeRecord(folder, record);
  return record;
}

export function readRecord(folder: string): SandboxRecord | undefined {
  // The file may disappear at any moment, with its sandbox.
  const text = readText(join(folder, "record.json"));
  return text === undefined ? undefined : (JSON.parse(text) as SandboxRecord);
}

export function rootOf({ rootPid }: Pick<SandboxRecord, "rootPid">): string {
  return `/proc/${rootPid}/root`;
}

export function recordsIn(sandboxesFolder: string): SandboxRecord[] {
  return readdirSync(sandboxesFolder).flatMap((name) => readRecord(join(sandboxesFolder, name)) ?? []);
}

/** Whether a server was killed while it made a sandbox, so that processes without a record may run. */
export function hasUnrecorded(sandboxesFolder: string): boolean {
  return readdirSync(sandboxesFolder).length > recordsIn(sandboxesFolder).length;
}

export function recordsOfOthers(tag: string): SandboxRecord[] {
  return otherServers(tag)
    .map(sandboxesIn)
    .filter((folder) => existsSync(folder))
    .flatMap(recordsIn);
}

/** When the process cannot be examined, the answer is true: a sandbox that counts as lost is destroyed. */
export function isAlive(
  record: Pick<SandboxRecord, "pid" | "pidStartTicks">,
  ticksOf: (pid: number) => string | undefined = startTicks,
): boolean {
  try {
    return ticksOf(record.pid) === record.pidStartTicks;
  } catch {
    return true;
  }
}
