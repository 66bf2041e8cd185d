/** What a sandbox has lost when CRIU failed, or was killed, while it wrote it down. */
import { existsSync, readFileSync } from "node:fs";
import { Fault } from "../../../contract/fault.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { freezerOf, processesBelow } from "../../../system/cgroup/freezer.ts";

/** What a killed CRIU had its hand in ends within this. */
const CRIU_AFTERMATH_MS = 50;

/** What a shell calls a command that ended by a signal. */
export const SIGNALLED_MIN = 129;

interface WrittenSandbox {
  id: string;
  pid: number;
  cgroup: string;
}

/**
 * After CRIU was killed: what it had its hand in ends within a moment. Throws when that was the sandbox, which can also
 * be when CRIU ended by itself: it leaves everything as it is when one of the processes is killed under its hands.
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
  // Others come and go as they like; a guest that is gone was killed under CRIU's hands, and is replaced by itself.
  if (!wasKilled && !gone.some((each) => guests.includes(each))) return undefined;
  const lost = wasKilled ? gone.length : gone.filter((each) => !guests.includes(each)).length;
  if (lost === 0) return undefined;
  const these = lost === 1 ? "one of its processes has" : `${lost} of its processes have`;
  const what = wasKilled
    ? "the tool that wrote this sandbox down"
    : "the guest of this sandbox, while it was written down,";
  return new Fault(503, `${what} was killed, and ${these} ended with it; the others go on`);
}

/** By its own word, which is enough to judge a loss by. */
export function isGuest(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(`${GUEST_MOUNT}/bin/guest`);
  } catch {
    return false;
  }
}
