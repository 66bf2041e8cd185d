/**
 * A test with a tight time limit. `npm test` runs it when nothing else runs (tests/lanes.ts); `npm run check` never
 * does. Other load on the machine may delay one attempt or two, so a failure is retried. A test that is always late
 * still fails, and the report shows the attempts.
 */
import { test } from "bun:test";

/** Ends the test's name, so that a run can select these tests. */
export const TIMED_MARK = "[timed]";
const TRIED_AGAIN = 2;
/** Not the promise of a test: that is among its expectations. */
const TEST_MS = 300_000;

export function timed(name: string, play: () => Promise<void>, timeoutMs = TEST_MS): void {
  if (process.env.SANDLOT_TEST_TIMED === "apart") return;
  test(`${name} ${TIMED_MARK}`, { retry: TRIED_AGAIN, timeout: timeoutMs }, play);
}
