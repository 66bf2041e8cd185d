/**
 * Ranks user processes below the guest when the sandbox runs out of a resource. The OOM killer takes them first, they
 * get less CPU, and ordinary users cannot use the last process slots, so that root can still start programs that end
 * them. The guest can only lower other processes. If the host has raised the guest, users keep the normal niceness.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { systemCode } from "../../base/system-code.ts";
import { SANDBOX_PIDS_MAX } from "../../contract/runtime/limits.ts";
import { logError, logNotice } from "../system/log.ts";
import { lowerProcessesMax, randomizeAddressesOnExec, resetPriorityOnFork, setNiceness } from "./system-calls.ts";

/** Part of SANDBOX_PIDS_MAX that ordinary users cannot use: root needs it to end a fork bomb. */
export const SANDBOX_PIDS_FOR_ROOT = 256;

/** Errors of /proc files of a process that has ended, before and after it was waited for. */
const OVER: ReadonlySet<string> = new Set(["ENOENT", "ESRCH"]);
const OWN_OOM_SCORE = "/proc/self/oom_score_adj";
/** The maximum: even in a small sandbox, where the guest is comparatively large, user processes are killed first. */
const USER_OOM_SCORE = "1000";
/** The guest's score while it starts a process: below user processes, so that the OOM killer does not pick it. */
const STARTING_OOM_SCORE = "500";
/**
 * Used if the host has not raised the guest's priority: each user process gets a twenty-eighth of the guest's share.
 * With thousands of processes the guest still responds within a second (with niceness 10 not always). Users keep four
 * steps to rank their own processes.
 */
const USER_NICENESS = 15;

/**
 * Runs `spawn` so that the new process is below the guest from its start: it inherits these values, and the guest then
 * restores its own. Lowering a process after its start could miss children that it has already started.
 */
export function startBelowGuest<T>(uid: number, spawn: () => T): T {
  using _score = raisedOomScore();
  using _places = uid === 0 ? undefined : fewerProcesses();
  // Set on every start, because a restored guest may have lost it.
  if (!resetPriorityOnFork()) logNotice("a process may have the guest's priority");
  if (!randomizeAddressesOnExec()) logNotice("a process may have no random addresses");
  return spawn();
}

/** Sets what a process cannot inherit, because the guest must not have it itself. Call it right after the spawn. */
export function lowerBelowGuest(pid: number): void {
  if (getPriority() >= 0 && !setNiceness(pid, USER_NICENESS) && !hasEnded(pid)) {
    logNotice("a process kept the guest's priority", { pid });
  }
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, USER_OOM_SCORE);
  } catch (thrown) {
    // The process may have ended. Otherwise it keeps the score that it was started with.
    if (!OVER.has(systemCode(thrown)) && !hasEnded(pid)) {
      logError("a process kept the score that it was started with", thrown, { pid });
    }
  }
}

/**
 * Also true for a process that ended but was not waited for. It has no memory, and the kernel gives its /proc files to
 * the machine's root, so writing them as the sandbox's root fails with EACCES.
 */
function hasEnded(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/statm`, "utf8").startsWith("0 ");
  } catch (thrown) {
    return OVER.has(systemCode(thrown));
  }
}

function raisedOomScore(): Disposable | undefined {
  try {
    const own = readFileSync(OWN_OOM_SCORE, "utf8");
    writeFileSync(OWN_OOM_SCORE, STARTING_OOM_SCORE);
    return { [Symbol.dispose]: () => restoreOomScore(own) };
  } catch (thrown) {
    logError("a process is not preferred when memory runs out", thrown);
    return undefined;
  }
}

/** Only logs a failure: the process already runs, and an exception would look like a failed start. */
function restoreOomScore(own: string): void {
  try {
    writeFileSync(OWN_OOM_SCORE, own);
  } catch (thrown) {
    logError("the guest kept the score that it starts processes with", thrown);
  }
}

function fewerProcesses(): Disposable | undefined {
  const restore = lowerProcessesMax(SANDBOX_PIDS_MAX - SANDBOX_PIDS_FOR_ROOT);
  return restore === undefined ? undefined : { [Symbol.dispose]: restore };
}
