/**
 * Dangerous: which threads get a processor first, by sched_setscheduler(2) through bun:ffi. A create passes from thread
 * to thread, and each waits for a processor behind whatever works beside it: bodies that are moved, boots, compilers,
 * collectors. Those that answer clients have little to do each time, and go first. Nothing that they start does.
 */
import { FFIType, ptr } from "bun:ffi";
import { getPriority, setPriority } from "node:os";
import { onFirstUse } from "../base/c-library.ts";

const libc = onFirstUse({
  sched_setscheduler: { args: [FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});

const SCHED_OTHER = 0;
/** What the thread starts, threads and programs alike, begins at niceness 0. */
const SCHED_RESET_ON_FORK = 0x40000000;
/** Three times the share of others, where they compete: enough to be next, too little to keep others out. */
const NICENESS = -5;
const USUAL_NICENESS = 0;

/**
 * The first thread of this process. False: we may not, or it is gone, or the operator has chosen another niceness for
 * all of us; then all is as it was.
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
