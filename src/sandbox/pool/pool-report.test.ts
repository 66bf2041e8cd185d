import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { POOL_REPORT_AFTER_MS, PoolReports, readPoolReport } from "./pool-report.ts";

const runFolder = folderOfTest("report");

test("the last report of an interval is written; a failure is logged and stops nothing", async () => {
  const clock = new ManualClock(1_000_000);
  const pass = () => clock.advance(POOL_REPORT_AFTER_MS, async () => undefined);
  const failures: unknown[] = [];
  const reports = new PoolReports({ runFolder }, clock, { write: (entry) => void failures.push(entry) });
  for (const rounds of [[1, 2, 3], [4]]) {
    for (const hits of rounds) reports.note({ templates: [], hits, joined: 0, misses: 0 });
    await pass();
    expect(readPoolReport({ runFolder, inUse: true })?.hits).toBe(rounds.at(-1));
  }
  rmSync(runFolder, { recursive: true });
  for (let count = 1; count <= 2; count++) {
    reports.note({ templates: [], hits: 5, joined: 0, misses: 0 });
    await pass();
    expect(failures).toHaveLength(count);
  }
});
