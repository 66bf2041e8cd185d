/**
 * Detects that the processes in some cgroups make no progress. CRIU waits forever for a process that was killed during
 * its restore, and so do all the others.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { processorTimeFile } from "../../../system/cgroup/cgroups.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";

export const STALL_CHECK_MS = 500;

interface Watched {
  /** Called once, when there was no progress for the given time. */
  stalled(): void;
  /**
   * Whether the process that all others wait for is gone. After two positive checks in a row, `ended` is called once
   * and `stalled` never: between the checks its last message arrives, which may report success.
   */
  hasEnded(): boolean;
  ended(): void;
}

export class StallWatch implements Disposable {
  readonly #timer: Timer;
  #hasEnded = false;
  #seen = "";
  /**
   * Counted in checks, not by the clock: while the server is blocked, the processes that wait for its reply are still.
   */
  #stillMs = 0;
  /** Work in progress elsewhere that the processes wait for. */
  #elsewhere = 0;

  constructor(cgroups: readonly string[], stalledMs: number, watched: Watched, checkMs = STALL_CHECK_MS) {
    const tell = (what: () => void) => {
      clearInterval(this.#timer);
      what();
    };
    this.#timer = setInterval(() => {
      const hadEnded = this.#hasEnded;
      this.#hasEnded = watched.hasEnded();
      if (this.#hasEnded && hadEnded) tell(() => watched.ended());
      if (this.#hasEnded) return;
      const now = cgroups.flatMap(doings).join(" ");
      // An empty cgroup is not stalled: CRIU first reads the image, outside of these cgroups.
      const isStill = now !== "" && now === this.#seen && this.#elsewhere === 0 && !cgroups.some(hasDiskWait);
      this.#stillMs = isStill ? this.#stillMs + checkMs : 0;
      this.#seen = now;
      if (this.#stillMs >= stalledMs) tell(() => watched.stalled());
    }, checkMs);
  }

  /** Runs other work that the processes in the cgroups wait for. */
  async during(work: () => Promise<unknown>): Promise<void> {
    this.#elsewhere++;
    try {
      await work();
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
function doings(cgroup: string): string[] {
  const pids = processesIn(cgroup);
  if (pids.length === 0) return [];
  const used = read(processorTimeFile(cgroup));
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
  return read(join(freezerOf(cgroup), "cgroup.procs"))
    .split("\n")
    .filter(Boolean);
}

/** The state, user time and system time of a process. */
function statOf(pid: string): (string | undefined)[] {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [fields[0], fields[11], fields[12]];
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // The process ended, or has not started.
    return "";
  }
}
