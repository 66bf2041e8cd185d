/**
 * What puts user processes behind the guest when a sandbox runs out of something: they are the first to be ended when
 * memory is short, they get the processors after it, and those of ordinary users cannot take the last places for
 * processes, so that root can still start what ends them. The guest can only lower others, never raise itself. The host
 * can: then users have the usual niceness.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { SANDBOX_PIDS_MAX } from "../../contract/runtime/limits.ts";
import { logError, logNotice } from "../system/log.ts";
import { systemCode } from "../system/rpc-fault.ts";
import { keepPriorityToOneself, lowerProcessesMax, setNiceness } from "./system-calls.ts";

/** Of SANDBOX_PIDS_MAX, one ordinary user's processes never take the last few: root needs them to end a fork bomb. */
export const SANDBOX_PIDS_FOR_ROOT = 256;

/** What the files of a process say when there is none any more, before and after it was waited for. */
const OVER: ReadonlySet<string> = new Set(["ENOENT", "ESRCH"]);
const OWN_OOM_SCORE = "/proc/self/oom_score_adj";
/** Ahead of the guest whatever their sizes: in a sandbox of little memory the guest is large beside what runs there. */
const USER_OOM_SCORE = "1000";
/**
 * While it starts one, the guest itself has this: less than those that run already, or a start in need would be its
 * end.
 */
const STARTING_OOM_SCORE = "500";
/**
 * Where the host has not put the guest first: a twenty-eighth of its share each. Thousands of them leave it enough to
 * answer within a second (with 10 they do not always). Users still have four steps to set their own processes apart.
 */
const USER_NICENESS = 15;

/**
 * Runs `spawn` so that what it starts is behind the guest from its first moment on: a process inherits these, and the
 * guest takes its own back. (A process that was lowered after its start may have children by then that were not.)
 */
export function startBehindTheGuest<T>(uid: number, spawn: () => T): T {
  using _score = raisedOomScore();
  using _places = uid === 0 ? undefined : fewerProcesses();
  // Each time: a guest that was restored may have lost it.
  if (!keepPriorityToOneself()) logNotice("a process may have the guest's priority");
  return spawn();
}

/** The rest, which a process cannot inherit, for the guest must not have it. To be called right after the spawn. */
export function fallBehindTheGuest(pid: number): void {
  if (getPriority() >= 0 && !setNiceness(pid, USER_NICENESS) && !hasEnded(pid)) {
    logNotice("a process kept the guest's priority", { pid });
  }
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, USER_OOM_SCORE);
  } catch (thrown) {
    // It may be over already. If not, it has the score that it was started with.
    if (!OVER.has(systemCode(thrown)) && !hasEnded(pid)) {
      logError("a process kept the score that it was started with", thrown, { pid });
    }
  }
}

/**
 * Also of a process that ends and was not waited for yet. It has no memory any more, and the kernel then gives its
 * files to the machine's root, whose files the sandbox's root may not write: EACCES.
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
    return { [Symbol.dispose]: () => takeBackOomScore(own) };
  } catch (thrown) {
    logError("a process is not preferred when memory runs out", thrown);
    return undefined;
  }
}

/** By then the process runs: who hears of a failure here would take it for one of the start. */
function takeBackOomScore(own: string): void {
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
