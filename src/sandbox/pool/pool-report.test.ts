import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { POOL_REPORT_EVERY_MS, PoolReports, readPoolReport } from "./pool-report.ts";

let runFolder: string;
beforeEach(() => {
  runFolder = mkdtempSync(join(tmpdir(), "sandlot-report-"));
});
afterEach(() => rmSync(runFolder, { recursive: true, force: true }));

const hits = (count: number) => ({ templates: [], hits: count, joined: 0, misses: 0 });
const written = () => readPoolReport({ runFolder, inUse: true })?.hits;

test("the first is written at once, of those that follow the last, and none is left out for good", async () => {
  const clock = new ManualClock(1_000_000);
  const pass = () => clock.advance(POOL_REPORT_EVERY_MS, async () => undefined);
  const failures: unknown[] = [];
  const reports = new PoolReports({ data: { runFolder }, clock, failed: (error) => failures.push(error) });
  reports.note(hits(1));
  expect(written()).toBe(1);
  for (const count of [2, 3]) reports.note(hits(count));
  expect(written()).toBe(1);
  await pass();
  expect(written()).toBe(3);
  await pass();
  reports.note(hits(4));
  expect(written()).toBe(4);
  // The clock is set back.
  clock.jump(-3_600_000);
  reports.note(hits(5));
  await pass();
  expect(written()).toBe(5);
  rmSync(runFolder, { recursive: true });
  reports.note(hits(6));
  await pass();
  expect(failures).toHaveLength(1);
});
