/**
 * What CRIU would take long over, or wait for in vain, as far as that is to be seen before it begins: the caller hears
 * of it at once, and nobody else waits for it. For a usual sandbox this takes less than a millisecond.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { scaled } from "../../../base/time-factor.ts";
import type { Fault } from "../../../contract/fault.ts";
import { freezerOf, processesBelow } from "../../../system/cgroup/freezer.ts";
import { LOOKED_AT_TURN } from "../../limits.ts";
import { cannotBeKept } from "./criu-complaint.ts";

/**
 * What waits in a sandbox that is to be written, and deleted files that it holds open: CRIU takes and restores them one
 * by one. And how long a process may be in vfork by then, and how often it is looked at.
 */
export const QUEUED_SIGNALS_MAX = 10_000;
export const DELETED_FILES_MAX = 2_000;
const VFORK_WAIT_MS = scaled(3_000);
const VFORK_LOOK_EVERY_MS = 20;

/** Where the kernel says a thread waits that has made a child by vfork; the name differs between kernels. */
const IN_VFORK = /vfork|kernel_clone|do_fork/;

interface Process {
  pid: number;
  user: string;
  /** Signals that wait for any process of its user. */
  queued: number;
  files: number;
}

/** Fault 422, with the process and the reason. */
export async function demandSoonWritten(cgroup: string): Promise<void> {
  const processes: Process[] = [];
  const waiting: string[] = [];
  for (const pid of await processesBelow(freezerOf(cgroup))) {
    const status = textOf(`/proc/${pid}/status`);
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
    if (processes.length % LOOKED_AT_TURN === 0) await setImmediate();
  }
  demandFewSignals(processes);
  await demandFewDeletedFiles(processes);
  await untilStarted(waiting);
}

function demandFewSignals(processes: readonly Process[]): void {
  const ofUser = new Map(processes.map((process) => [process.user, process]));
  const queued = [...ofUser.values()].reduce((sum, process) => sum + process.queued, 0);
  if (queued <= QUEUED_SIGNALS_MAX) return;
  const [most] = [...ofUser.values()].sort((a, b) => b.queued - a.queued);
  const reason = `${queued} signals and timers wait in this sandbox, of which it has some; ${QUEUED_SIGNALS_MAX} can be kept`;
  throw cannotBeKept(most?.pid ?? 0, reason);
}

/** Each is written by itself and made again by itself, however many processes have it open. */
async function demandFewDeletedFiles(processes: readonly Process[]): Promise<void> {
  if (processes.reduce((sum, { files }) => sum + files, 0) <= DELETED_FILES_MAX) return;
  const deleted = new Set<string>();
  let seen = 0;
  for (const { pid } of processes) {
    for (const name of entriesOf(`/proc/${pid}/fd`)) {
      if (++seen % LOOKED_AT_TURN === 0) await setImmediate();
      const file = deletedFile(`/proc/${pid}/fd/${name}`);
      if (file !== undefined) deleted.add(file);
      if (deleted.size > DELETED_FILES_MAX) throw tooManyDeleted(pid);
    }
  }
}

function tooManyDeleted(pid: number): Fault {
  return cannotBeKept(pid, `with others, it holds more than ${DELETED_FILES_MAX} deleted files open`);
}

/** Who is in vfork cannot be stopped until its child has started a program, which takes a moment, or for ever. */
async function untilStarted(threads: readonly string[]): Promise<void> {
  const deadline = performance.now() + VFORK_WAIT_MS;
  for (let left = threads; left.length > 0; left = left.filter(isInVfork)) {
    if (performance.now() > deadline) {
      const pid = Number(left[0]?.split("/")[2]);
      throw cannotBeKept(pid, "it has made a child by vfork that has not started a program yet, and cannot be stopped");
    }
    await Bun.sleep(VFORK_LOOK_EVERY_MS);
  }
}

function isInVfork(thread: string): boolean {
  return /\) D /.test(textOf(`${thread}/stat`)) && IN_VFORK.test(textOf(`${thread}/wchan`));
}

/** What names a file that is open and has no name any more; undefined for any other. */
function deletedFile(path: string): string | undefined {
  try {
    const target = readlinkSync(path);
    if (!target.startsWith("/") || !target.endsWith(" (deleted)")) return undefined;
    const { dev, ino } = statSync(path);
    return `${dev} ${ino}`;
  } catch {
    // Closed meanwhile.
    return undefined;
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // It has ended.
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It has ended.
    return "";
  }
}
