/**
 * Detects rows that became twice as slow: some rows of the benchmark, with few rounds, against bounds of about twice
 * the measured values. Ratios to a floor of the same run depend little on the machine, but are noisy too: a row that
 * misses its bound is measured again before it counts.
 */
import { expect } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Task } from "../../bench/context.ts";
import type { Report } from "../../bench/figures/report.ts";
import { LONG } from "../../src/base/testing/long.ts";
import { timed } from "../../src/base/testing/timed.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { MountNamespace } from "../../src/system/mount/mount-namespace.ts";
import { CACHE } from "../support/cache.ts";
import { serverOfFile } from "../support/server-of-file.ts";

/** The most that each may be of its floor. Lower a bound when the row has become faster for good; never raise one. */
const RATIO_MAX: Readonly<Record<string, number>> = {
  create: 2,
  "burst-20": 3,
  sustained: 3,
  "boot-processor": 11,
  "round-trip": 2.2,
  pause: 2.6,
  resume: 2.8,
};
/** With SANDLOT_TEST_LONG=1 only: the rows of one create and of a burst measure the same operation. */
const RARELY = ["burst-20", "sustained"];
/** A row within its bound in the first measurement is done; one that misses it is measured more closely. */
const ROUNDS_OF_MEASUREMENTS = [1, 3];
const MEASURE = join(import.meta.dir, "../../bench/measure.ts");
const TEST_MS = 600_000;

/** As users have it, with a ready pool that follows demand. */
const server = serverOfFile("figures", { SANDLOT_READY_MAX: "128" });

/** The ratio of each row, or why there is none. */
async function ratios(rows: readonly string[], rounds: number): Promise<Record<string, number | string>> {
  const { url, apiKey, dataFolder } = server();
  const jsonFile = join(dataFolder, "figures.json");
  const task: Task = {
    rows: [...rows],
    rounds,
    quick: true,
    long: false,
    plots: [],
    jsonFile,
    url,
    apiKey,
    dataFolder,
    cacheFolder: CACHE,
    // None of these rows needs the outer network or a peer.
    outerNetwork: "",
    missing: {},
  };
  const enter = new MountNamespace(new DataFolder(dataFolder)).enterCommand;
  const child = Bun.spawn([...enter, process.execPath, MEASURE], {
    stdin: new TextEncoder().encode(JSON.stringify(task)),
    stdout: "ignore",
    stderr: "inherit",
    timeout: TEST_MS,
    killSignal: "SIGKILL",
  });
  // It ends with 1 when a row misses the bound of the benchmark, which is none of this test's.
  await child.exited;
  const report = JSON.parse(readFileSync(jsonFile, "utf8")) as Report;
  return Object.fromEntries(
    report.rows.map((row) => [row.name, "ratio" in row ? (row.ratio ?? "no ratio") : JSON.stringify(row)]),
  );
}

timed(
  "no row is twice as slow as it was",
  async () => {
    const rows = Object.entries(RATIO_MAX).filter(([name]) => LONG || !RARELY.includes(name));
    let missed: Record<string, number | string> = Object.fromEntries(rows);
    for (const rounds of ROUNDS_OF_MEASUREMENTS) {
      if (Object.keys(missed).length === 0) break;
      const found = Object.entries(await ratios(Object.keys(missed), rounds));
      missed = Object.fromEntries(found.filter(([name, ratio]) => !(Number(ratio) <= (RATIO_MAX[name] ?? 0))));
    }
    expect(missed).toEqual({});
  },
  TEST_MS,
);
