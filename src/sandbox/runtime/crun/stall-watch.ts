/** Detects cgroups without progress: CRIU waits forever for a process that was killed during its restore. */
import { join } from "node:path";
import { processorTimeFile } from "../../../system/cgroup/cgroups.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";
import { procText } from "../../../system/proc-text.ts";

export const STALL_CHECK_MS = 500;

export class StallWatch implements Disposable {
  readonly #timer: Timer;
  #seen = "";
  /** Counted in checks: while the server is blocked, the processes that wait for its reply are still. */
  #stillMs = 0;
  /** Work in progress elsewhere that the processes wait for. */
  #elsewhere = 0;

  /** `stalled` is called once, when there was no progress for the given time. */
  constructor(cgroups: readonly string[], stalledMs: number, stalled: () => void, checkMs = STALL_CHECK_MS) {
    this.#timer = setInterval(() => {
      const now = cgroups.flatMap(progressSigns).join(" ");
      // An empty cgroup is not stalled: CRIU first reads the image, outside of these cgroups.
      const isStill = now !== "" && now === this.#seen && this.#elsewhere === 0 && !cgroups.some(hasDiskWait);
      this.#stillMs = isStill ? this.#stillMs + checkMs : 0;
      this.#seen = now;
      if (this.#stillMs < stalledMs) return;
      clearInterval(this.#timer);
      stalled();
    }, checkMs);
  }

  /** Awaits other work that the processes in the cgroups wait for. */
  async during(work: Promise<unknown>): Promise<void> {
    this.#elsewhere++;
    try {
      await work;
    } finally {
      this.#stillMs = 0;
      this.#elsewhere--;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/**
 * Changes when a process starts, ends, or uses CPU time. Uses the cgroup's counter where there is one: reading each of
 * 3 000 processes takes 60 ms, twice a second during the whole restore.
 */
function progressSigns(cgroup: string): string[] {
  const pids = processesIn(cgroup);
  if (pids.length === 0) return [];
  const used = procText(processorTimeFile(cgroup));
  if (used !== "") return [...pids, used];
  return pids.map((pid) => {
    const [, user, system] = statOf(pid);
    return `${pid}:${user}:${system}`;
  });
}

function hasDiskWait(cgroup: string): boolean {
  return processesIn(cgroup).some((pid) => statOf(pid)[0] === "D");
}

function processesIn(cgroup: string): string[] {
  return procText(join(freezerOf(cgroup), "cgroup.procs"))
    .split("\n")
    .filter(Boolean);
}

/** The state, user time and system time of a process. */
function statOf(pid: string): (string | undefined)[] {
  const stat = procText(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [fields[0], fields[11], fields[12]];
}
