/**
 * What the host must remember of a sandbox to find it again after the server was killed. It lies in the run folder
 * beside the bundle: after a reboot neither the processes nor the records exist.
 */
import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Egress, SandboxKind, Wall } from "../contract/internal/host.ts";
import { otherServers, readText, sandboxesIn } from "../system/data-folder.ts";
import type { IdForm } from "../system/id-range.ts";
import { startTicks } from "../system/start-ticks.ts";
import type { OutsideMount } from "./runtime/runtime.ts";
import { FIRST_WALL } from "./runtime/runtimes.ts";

export interface SandboxRecord {
  id: string;
  slot: number;
  /** Name of its disk. */
  disk: string;
  /** How the owners of files on it are written; absent in records of servers that knew one form: shifted. */
  ids?: IdForm;
  /** The machine's id for root inside; absent in those, too, whose sandboxes all had the same. */
  firstId?: number;
  cgroup: string;
  pid: number;
  /** What has the root of the sandbox as its own; absent where that is `pid`. */
  rootPid?: number;
  /** Start time of `pid` in clock ticks since boot: a pid that was given to another process does not match. */
  pidStartTicks: string;
  controlSecret: string;
  /** What may leave it; records of servers that knew no rules have `offline` instead. */
  egress?: Egress;
  offline?: boolean;
  kind: SandboxKind;
  /** What it is behind; absent in records of servers that had no choice. */
  wall?: Wall;
  guestFolder: string;
  /** What is mounted from outside, for the next checkpoint; below its own folder it begins with OWN_FOLDER. */
  mounts: OutsideMount[];
  /**
   * The checkpoint that it is being paused into. Once there is one, the sandbox is in it and what still stands here is
   * over.
   */
  pausingInto?: string;
}

export function writeRecord(folder: string, record: SandboxRecord): void {
  const path = join(folder, "record.json");
  writeFileSync(`${path}.new`, JSON.stringify(record), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

export function readRecord(folder: string): SandboxRecord | undefined {
  // It may go at any moment, with its sandbox.
  const text = readText(join(folder, "record.json"));
  return text === undefined ? undefined : (JSON.parse(text) as SandboxRecord);
}

/** Where its disk is seen from the machine. */
export function rootOf({ pid, rootPid }: Pick<SandboxRecord, "pid" | "rootPid">): string {
  return `/proc/${rootPid ?? pid}/root`;
}

export function wallOf({ wall }: Pick<SandboxRecord, "wall">): Wall {
  return wall ?? FIRST_WALL;
}

export function egressOf({ egress, offline }: Pick<SandboxRecord, "egress" | "offline">): Egress {
  return egress ?? (offline ? "closed" : "open");
}

/** Of all sandboxes that have their folder there. */
export function recordsIn(sandboxesFolder: string): SandboxRecord[] {
  return readdirSync(sandboxesFolder).flatMap((name) => readRecord(join(sandboxesFolder, name)) ?? []);
}

/** Whether a server was killed while it made a sandbox, so that something may run that no record tells of. */
export function hasUnrecorded(sandboxesFolder: string): boolean {
  return readdirSync(sandboxesFolder).length > recordsIn(sandboxesFolder).length;
}

/** Of the sandboxes of all other servers on this machine. */
export function recordsOfOthers(tag: string): SandboxRecord[] {
  return otherServers(tag)
    .map(sandboxesIn)
    .filter((folder) => existsSync(folder))
    .flatMap(recordsIn);
}

/** Who cannot be looked at is not dead: what is taken for lost is destroyed. */
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
