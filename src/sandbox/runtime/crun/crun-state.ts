/**
 * What crun keeps of a container in a folder of its own, in the two cases in which it says all there is to know: crun
 * itself would read, check and parse for milliseconds. Whatever looks otherwise is left to crun.
 */
import { closeSync, constants, openSync, unlinkSync, writeSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";
import { startTicks } from "../../../system/start-ticks.ts";

/** The first process of a container that was made holds it open, and begins when it reads from it. */
const START_FIFO = "exec.fifo";
const STATUS_FILE = "status";

/** Starts what was made. False: there is nothing to start by, and nothing has happened. */
export function startMade(folder: string, id: string): boolean {
  const path = join(folder, START_FIFO);
  let fifo: number;
  try {
    fifo = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return false;
    if (codeOf(cause) === "ENXIO") throw endedBefore(id, cause);
    throw cause;
  }
  try {
    // First: while it is there, crun takes the container for one that was not started.
    unlinkSync(path);
    writeSync(fifo, "\0");
    return true;
  } catch (cause) {
    throw codeOf(cause) === "EPIPE" ? endedBefore(id, cause) : cause;
  } finally {
    closeSync(fifo);
  }
}

export function endedBefore(id: string, cause?: unknown): Fault {
  return new Fault(500, `the first process of ${id} ended before it was started`, { cause });
}

/**
 * Removes what is kept of a container whose first process has ended, and with it all others: what crun would do
 * besides, its cgroup, is not its business any more. False: it runs, or that is not known.
 */
export async function removeEnded(folder: string): Promise<boolean> {
  const first = await firstProcessOf(folder);
  if (first === undefined || runs(first)) return false;
  await rm(folder, { recursive: true, force: true });
  return true;
}

interface FirstProcess {
  pid: number;
  startTicks: string;
}

/** Undefined: crun has not written it, or not all of it. */
async function firstProcessOf(folder: string): Promise<FirstProcess | undefined> {
  try {
    const status: unknown = JSON.parse(await readFile(join(folder, STATUS_FILE), "utf8"));
    const { pid, "process-start-time": ticks } = (status ?? {}) as Record<string, unknown>;
    return Number.isInteger(pid) && Number.isInteger(ticks) && Number(pid) > 0 && Number(ticks) > 0
      ? { pid: Number(pid), startTicks: String(ticks) }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Also who cannot be looked at. */
function runs(first: FirstProcess): boolean {
  try {
    return startTicks(first.pid) === first.startTicks;
  } catch {
    return true;
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}
