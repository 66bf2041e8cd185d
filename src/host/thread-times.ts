/** How much of the processors each thread of this process has used, exactly. */
import { FFIType, ptr } from "bun:ffi";
import { readdirSync, readFileSync } from "node:fs";
import { onFirstUse } from "../work/c-library.ts";

const libc = onFirstUse({ clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 } });

/** The clock of a thread is named by its number, so that others can read it. */
const THREAD_CLOCK = 6;
const NUMBER_SHIFT = 3;

const TASKS = "/proc/self/task";

export interface Thread {
  number: number;
  /** The thread on which the program itself runs. */
  isFirst: boolean;
  name: string;
}

/** Those that there are now. */
export function threads(): Thread[] {
  return readdirSync(TASKS).flatMap((task) => {
    try {
      const name = readFileSync(`${TASKS}/${task}/comm`, "utf8").trim();
      return [{ number: Number(task), isFirst: Number(task) === process.pid, name }];
    } catch {
      // It has ended.
      return [];
    }
  });
}

const time = new BigInt64Array(2);

/** 0: it has ended. */
export function threadMs({ number }: Pick<Thread, "number">): number {
  const clock = (~number << NUMBER_SHIFT) | THREAD_CLOCK;
  if (libc().clock_gettime(clock, ptr(time)) !== 0) return 0;
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}
