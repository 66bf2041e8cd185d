/**
 * A test with a tight time limit. `npm test` runs it when nothing else runs (tests/lanes.ts); `npm run check` never
 * does. Other load on the machine may delay one attempt or two, so a failure is retried. A failure while the hypervisor
 * gave processor time to other machines proves nothing and is not counted. A test that is always late still fails, and
 * the report shows the attempts.
 */
import { test } from "bun:test";
import { readFileSync } from "node:fs";

/** Ends the test's name, so that a run can select these tests. */
export const TIMED_MARK = "[timed]";
const TRIED_AGAIN = 2;
/** Not the promise of a test: that is among its expectations. */
const TEST_MS = 300_000;
/** An attempt with a larger share of stolen processor time is not counted, this many times. */
const STOLEN_MAX_SHARE = 0.02;
const NOT_COUNTED_MAX = 5;

export function timed(name: string, play: () => Promise<void>, timeoutMs = TEST_MS): void {
  if (process.env.SANDLOT_TEST_TIMED === "apart") return;
  test(`${name} ${TIMED_MARK}`, { retry: TRIED_AGAIN, timeout: timeoutMs }, () => counted(name, play));
}

async function counted(name: string, play: () => Promise<void>): Promise<void> {
  for (let notCounted = 0; ; notCounted++) {
    const before = processorTimes();
    try {
      return await play();
    } catch (error) {
      const now = processorTimes();
      const share = (now.stolen - before.stolen) / (now.all - before.all || 1);
      if (share <= STOLEN_MAX_SHARE || notCounted === NOT_COUNTED_MAX) throw error;
      console.error(`${name}: repeated, because ${Math.round(100 * share)} % of the processor time was stolen`);
    }
  }
}

function processorTimes(): { stolen: number; all: number } {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  // user, nice, system, idle, iowait, irq, softirq, steal; times of guests follow and are part of these.
  const times = line.trim().split(/\s+/).slice(1, 9).map(Number);
  return { stolen: times[7] ?? 0, all: times.reduce((sum, time) => sum + time, 0) };
}
