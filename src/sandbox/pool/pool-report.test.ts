import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { POOL_REPORT_AFTER_MS, PoolReports, poolMetrics, readPoolReport } from "./pool-report.ts";

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

test("each gauge has one line per template, and creates are counted by how they were served", () => {
  const base = { templateId: "base", ready: 2, making: 1, target: 20, floor: 2, hits: 5, joined: 1, misses: 3 };
  const web = { templateId: "abc123", ready: 0, making: 0, target: 0, floor: 0, hits: 0, joined: 0, misses: 1 };
  const text = poolMetrics({ templates: [base, web], hits: 5, joined: 1, misses: 4 });
  const samples = text.split("\n").filter((line) => !line.startsWith("#"));
  expect(samples).toEqual([
    'sandlot_ready_pool_ready{template="base"} 2',
    'sandlot_ready_pool_ready{template="abc123"} 0',
    'sandlot_ready_pool_making{template="base"} 1',
    'sandlot_ready_pool_making{template="abc123"} 0',
    'sandlot_ready_pool_target{template="base"} 20',
    'sandlot_ready_pool_target{template="abc123"} 0',
    'sandlot_ready_pool_floor{template="base"} 2',
    'sandlot_ready_pool_floor{template="abc123"} 0',
    'sandlot_ready_pool_creates_total{served="ready"} 5',
    'sandlot_ready_pool_creates_total{served="joined"} 1',
    'sandlot_ready_pool_creates_total{served="missed"} 4',
  ]);
});
