/**
 * A test that holds a tight bound of time. `npm test` plays it when nothing else runs (tests/lanes.ts), wherever it
 * stands; `npm run check` never does. What else the machine does may hold up one try, or two, and then it is measured
 * again. What is always late still fails, and the report tells the attempts.
 */
import { test } from "bun:test";

/** At the end of the test's name, so that a run can choose these tests alone. */
export const TIMED_MARK = "[timed]";
const TRIED_AGAIN = 2;
const TEST_MS = 60_000;

export function timed(name: string, play: () => Promise<void>, timeoutMs = TEST_MS): void {
  if (process.env.SANDLOT_TEST_TIMED === "apart") return;
  test(`${name} ${TIMED_MARK}`, { retry: TRIED_AGAIN, timeout: timeoutMs }, play);
}
