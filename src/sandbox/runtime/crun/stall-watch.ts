/**
 * Notices when what runs in some cgroups does nothing at all any more. CRIU waits without end for a process that was
 * killed while it was being restored, and so do all the others.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { processorTimeFile } from "../../../system/cgroup/cgroups.ts";
import { freezerOf } from "../../../system/cgroup/freezer.ts";

export const STALL_CHECK_MS = 500;

interface Watched {
  /** Called once, when nothing has moved for so long. */
  stalled(): void;
  /**
   * Whether the one that all others wait for is not there any more. If it is so twice in a row `ended` is called, once,
   * and no other: between the two looks what it said at last is heard, which may have been that all went well.
   */
  hasEnded(): boolean;
  ended(): void;
}

export class StallWatch implements Disposable {
  readonly #timer: Timer;
  #hasEnded = false;
  #seen = "";
  /** In looks, not by the clock: while this server is kept from looking, those who wait for its word stand still. */
  #stillMs = 0;
  /** How much goes on elsewhere that is waited for. */
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
      // Who is not there yet does not stand still: CRIU reads the image before, and is in no cgroup of ours.
      const isStill = now !== "" && now === this.#seen && this.#elsewhere === 0 && !cgroups.some(hasDiskWait);
      this.#stillMs = isStill ? this.#stillMs + checkMs : 0;
      this.#seen = now;
      if (this.#stillMs >= stalledMs) tell(() => watched.stalled());
    }, checkMs);
  }

  /** Something else is at work for those in the cgroups, who stand still meanwhile. */
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
 * Differs from what it was before when a process has come, gone, or used the processor. By the counter of the cgroup
 * where there is one: a look at each of 3 000 processes takes 60 ms, twice a second for as long as the restore takes.
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

/** State, and processor time of the process itself and of the kernel for it. */
function statOf(pid: string): (string | undefined)[] {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [fields[0], fields[11], fields[12]];
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It ended, or has not begun.
    return "";
  }
}
