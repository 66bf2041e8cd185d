/**
 * Reads crun's state folder directly in two cases where the files say everything: crun itself would read, check and
 * parse for milliseconds. Any other case is left to crun.
 */
import { closeSync, constants, openSync, unlinkSync, writeSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../../contract/fault.ts";
import { startTicks } from "../../../system/start-ticks.ts";

/** The first process of a created container waits on this FIFO before it starts. */
const START_FIFO = "exec.fifo";
const STATUS_FILE = "status";

/** Starts a created container. False: there is no FIFO, and nothing was done. */
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
    // Removed first: while it exists, crun considers the container not started.
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
 * Removes the state of a container whose first process, and with it all others, has ended. The host itself removes the
 * cgroup. False: the container runs, or its state is unknown.
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

/** Undefined: crun has not written the file, or not completely. */
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

/** True if the process cannot be examined. */
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
