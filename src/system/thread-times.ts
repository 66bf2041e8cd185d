/** Exact CPU times: of each thread of this process, or of a whole process. */
import { FFIType } from "bun:ffi";
import { readdirSync, readFileSync } from "node:fs";
import { onFirstUse, pointerTo } from "../base/c-library.ts";

const libc = onFirstUse({ clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 } });

/** The clock id of a thread or process contains its number, so that others can read it. */
const THREAD_CLOCK = 6;
const PROCESS_CLOCK = 2;
const NUMBER_SHIFT = 3;

const TASKS = "/proc/self/task";

export interface Thread {
  number: number;
  /** The thread on which the program itself runs. */
  isFirst: boolean;
  name: string;
}

export function threads(): Thread[] {
  return readdirSync(TASKS).flatMap((task) => {
    try {
      const name = readFileSync(`${TASKS}/${task}/comm`, "utf8").trim();
      return [{ number: Number(task), isFirst: Number(task) === process.pid, name }];
    } catch {
      // The thread has ended.
      return [];
    }
  });
}

const time = new BigInt64Array(2);

/** 0: the thread has ended. */
export function threadMs({ number }: Pick<Thread, "number">): number {
  return clockMs(number, THREAD_CLOCK) ?? 0;
}

/** Includes threads that have ended. Undefined: there is no such process. */
export function processMs(pid: number): number | undefined {
  return clockMs(pid, PROCESS_CLOCK);
}

function clockMs(number: number, kind: number): number | undefined {
  if (libc().clock_gettime((~number << NUMBER_SHIFT) | kind, pointerTo(time)) !== 0) return undefined;
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}
