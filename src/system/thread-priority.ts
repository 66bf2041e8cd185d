/**
 * Dangerous: raises the priority of threads, with sched_setscheduler(2) through bun:ffi. A create passes from thread to
 * thread, and each would wait for a processor behind other work: body transfers, boots, compilers, collectors. Threads
 * that respond to clients have little to do each time, so they go first. The programs they start do not.
 */
import { FFIType, ptr } from "bun:ffi";
import { getPriority, setPriority } from "node:os";
import { onFirstUse } from "../base/c-library.ts";

const libc = onFirstUse({
  sched_setscheduler: { args: [FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});

const SCHED_OTHER = 0;
/** Threads and programs that the thread starts begin at niceness 0. */
const SCHED_RESET_ON_FORK = 0x40000000;
/** Three times the share of others under contention: enough to be next, too little to starve others. */
const NICENESS = -5;
const USUAL_NICENESS = 0;

/**
 * Raises the first thread of this process. False, with no change: it is not permitted, the process is gone, or the
 * operator has chosen another niceness for the server.
 */
export function answerFirst(pid: number): boolean {
  try {
    if (getPriority(pid) !== USUAL_NICENESS) return false;
    const isKept = libc().sched_setscheduler(pid, SCHED_OTHER | SCHED_RESET_ON_FORK, ptr(new Int32Array(1))) === 0;
    if (isKept) setPriority(pid, NICENESS);
    return isKept;
  } catch {
    return false;
  }
}
