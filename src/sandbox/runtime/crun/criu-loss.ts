/** Determines which processes a sandbox lost when CRIU failed or was killed during a dump. */
import { existsSync, readFileSync } from "node:fs";
import { Fault } from "../../../contract/fault.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { freezerOf, processesBelow } from "../../../system/cgroup/freezer.ts";

/** Processes that a killed CRIU was working in end within this time. */
const CRIU_AFTERMATH_MS = 50;

/** Lowest exit code that a shell reports for a command killed by a signal. */
export const SIGNALLED_MIN = 129;

interface WrittenSandbox {
  id: string;
  pid: number;
  cgroup: string;
}

/**
 * Called after a failed dump. Processes in which a killed CRIU was working end shortly after. Throws when the sandbox
 * itself ended. That can also happen when CRIU exits by itself: it leaves everything as it is when one of the processes
 * is killed during the dump.
 */
export async function lossOf(
  { id, pid, cgroup }: WrittenSandbox,
  before: readonly number[],
  guests: readonly number[],
  exitCode: number,
): Promise<Fault | undefined> {
  await Bun.sleep(CRIU_AFTERMATH_MS);
  const after = existsSync(freezerOf(cgroup)) ? await processesBelow(freezerOf(cgroup)) : [];
  if (!after.includes(pid)) throw new Fault(404, `sandbox ${id} ended while CRIU wrote its checkpoint`);
  const gone = before.filter((each) => !after.includes(each));
  const wasKilled = exitCode >= SIGNALLED_MIN;
  // Other processes come and go normally. A guest that is gone was killed during the dump, and restarts by itself.
  if (!wasKilled && !gone.some((each) => guests.includes(each))) return undefined;
  const lost = wasKilled ? gone.length : gone.filter((each) => !guests.includes(each)).length;
  if (lost === 0) return undefined;
  const these = lost === 1 ? "one of its processes has" : `${lost} of its processes have`;
  const what = wasKilled
    ? "the tool that wrote this sandbox down"
    : "the guest of this sandbox, while it was written down,";
  return new Fault(503, `${what} was killed, and ${these} ended with it; the others go on`);
}

/** Judged by the process's own command line, which is enough for this purpose. */
export function isGuest(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(`${GUEST_MOUNT}/bin/guest`);
  } catch {
    return false;
  }
}
