/**
 * Rejects checkpoints that CRIU would write very slowly or never finish, if that can be seen beforehand. The client
 * gets the error at once, and no other checkpoint waits. For a usual sandbox the check takes less than a millisecond.
 */
import { readdirSync, readlinkSync, statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { scaled } from "../../../base/time-factor.ts";
import { freezerOf, processesBelow } from "../../../system/cgroup/freezer.ts";
import { procText } from "../../../system/proc-text.ts";
import { ENTRIES_PER_TURN } from "../../limits.ts";
import { cannotCheckpoint } from "./criu-error.ts";

/**
 * Limits for queued signals and for deleted open files, which CRIU dumps and restores one by one. And how long a
 * process may stay in vfork, and how often that is checked.
 */
export const QUEUED_SIGNALS_MAX = 10_000;
export const DELETED_FILES_MAX = 2_000;
const VFORK_WAIT_MS = scaled(3_000);
const VFORK_POLL_MS = 20;

/** The wait channel of a thread in vfork; the name differs between kernels. */
const IN_VFORK = /vfork|kernel_clone|do_fork/;

interface Process {
  pid: number;
  user: string;
  /** Signals queued for all processes of its user. */
  queued: number;
  files: number;
}

export async function requireCheckpointable(cgroup: string): Promise<void> {
  const processes: Process[] = [];
  const waiting: string[] = [];
  for (const pid of await processesBelow(freezerOf(cgroup))) {
    const status = procText(`/proc/${pid}/status`);
    if (status === "") continue;
    processes.push({
      pid,
      user: /^Uid:\s*(\d+)/m.exec(status)?.[1] ?? "",
      queued: Number(/^SigQ:\s*(\d+)/m.exec(status)?.[1] ?? 0),
      files: entriesOf(`/proc/${pid}/fd`).length,
    });
    for (const thread of entriesOf(`/proc/${pid}/task`)) {
      const path = `/proc/${pid}/task/${thread}`;
      if (isInVfork(path)) waiting.push(path);
    }
    if (processes.length % ENTRIES_PER_TURN === 0) await setImmediate();
  }
  requireFewSignals(processes);
  await requireFewDeletedFiles(processes);
  await untilStarted(waiting);
}

function requireFewSignals(processes: readonly Process[]): void {
  const ofUser = new Map(processes.map((process) => [process.user, process]));
  const queued = [...ofUser.values()].reduce((sum, process) => sum + process.queued, 0);
  if (queued <= QUEUED_SIGNALS_MAX) return;
  const [most] = [...ofUser.values()].sort((a, b) => b.queued - a.queued);
  const reason = `${queued} signals and timers are pending in this sandbox; a checkpoint can keep ${QUEUED_SIGNALS_MAX}`;
  throw cannotCheckpoint(most?.pid ?? 0, reason);
}

/** Each deleted file is dumped and restored separately, however many processes have it open. */
async function requireFewDeletedFiles(processes: readonly Process[]): Promise<void> {
  if (processes.reduce((sum, { files }) => sum + files, 0) <= DELETED_FILES_MAX) return;
  const deleted = new Set<string>();
  let seen = 0;
  for (const { pid } of processes) {
    for (const name of entriesOf(`/proc/${pid}/fd`)) {
      if (++seen % ENTRIES_PER_TURN === 0) await setImmediate();
      const file = deletedFile(`/proc/${pid}/fd/${name}`);
      if (file !== undefined) deleted.add(file);
      if (deleted.size <= DELETED_FILES_MAX) continue;
      throw cannotCheckpoint(pid, `with others, it holds more than ${DELETED_FILES_MAX} deleted files open`);
    }
  }
}

/** A process in vfork cannot be stopped until its child has executed a program, which may never happen. */
async function untilStarted(threads: readonly string[]): Promise<void> {
  const deadline = performance.now() + VFORK_WAIT_MS;
  for (let left = threads; left.length > 0; left = left.filter(isInVfork)) {
    if (performance.now() > deadline) {
      const pid = Number(left[0]?.split("/")[2]);
      throw cannotCheckpoint(
        pid,
        "it has made a child by vfork that has not started a program yet, and cannot be stopped",
      );
    }
    await Bun.sleep(VFORK_POLL_MS);
  }
}

function isInVfork(thread: string): boolean {
  return /\) D /.test(procText(`${thread}/stat`)) && IN_VFORK.test(procText(`${thread}/wchan`));
}

/** Identifies a deleted open file; undefined for any other. */
function deletedFile(path: string): string | undefined {
  try {
    const target = readlinkSync(path);
    if (!target.startsWith("/") || !target.endsWith(" (deleted)")) return undefined;
    const { dev, ino } = statSync(path);
    return `${dev} ${ino}`;
  } catch {
    // The file was closed meanwhile.
    return undefined;
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // The process has ended.
    return [];
  }
}
