import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FailureReader, hasPassed } from "../bun-test.ts";
import { filesOfLane, filesWithTimedTests, isSideBySide, LANES, laneOf, selectOfLane, selectTests } from "../lanes.ts";
import { keepServerLine, SERVER_LOGS, serverLinesIn } from "../support/server-log.ts";
import { expectedMs, recordMs } from "../timings.ts";
import { PROJECT } from "./source-files.ts";

const ALL = [
  "src/edge/routing/service-lookup.test.ts",
  "src/guest/sdk.root.test.ts",
  "tests/chaos/storm.test.ts",
  "tests/functional/host/copy.test.ts",
  "tests/functional/runtime/files.test.ts",
  "tests/conventions/lanes.test.ts",
  "tests/performance/hundreds.test.ts",
  "tests/security/alone/floods.test.ts",
  "tests/security/hostile-guest.test.ts",
];

test("the folder and name of a test determine its lane", () => {
  expect(ALL.map(laneOf)).toEqual([
    "check",
    "root",
    "sandboxes",
    "sandboxes",
    "sandboxes",
    "check",
    "performance",
    "machine",
    "sandboxes",
  ]);
  expect(filesOfLane("performance", ALL)).toEqual(["tests/performance/hundreds.test.ts"]);
});

test("tests of a time bound are found, and only in test files", () => {
  const all = [...new Bun.Glob("{bench,src,tests}/**/*.ts").scanSync({ cwd: PROJECT })];
  const found = filesWithTimedTests(all).filter((path) => path !== "tests/bun-test.ts");
  expect(found).toContain("src/edge/routing/service-lookup.test.ts");
  expect(found.filter((path) => !path.endsWith(".test.ts"))).toEqual([]);
});

test("each lane has tests, and each test is in one lane", () => {
  const { files } = selectTests([]);
  const byLane = LANES.map((lane) => filesOfLane(lane, files));
  expect(byLane.every((own) => own.length > 0)).toBe(true);
  expect(byLane.flat().sort()).toEqual([...files].sort());
});

test("files that run side by side have separate data folders, also under the same name", async () => {
  const program = `import { newDataFolder } from ${JSON.stringify(join(PROJECT, "tests/support/server.ts"))};
    console.log(newDataFolder("same"));`;
  const env = { ...process.env, SANDLOT_TEST_RUN: "1" };
  const folders = [0, 1].map(() => Bun.spawnSync([process.execPath, "-e", program], { env }).stdout.toString());
  expect(folders[0]).toMatch(/\/1\/\d+-same\n$/);
  expect(new Set(folders).size).toBe(2);
});

test("files that took longest in the last run on this machine are expected to take longest again", () => {
  const record = join(mkdtempSync(join(tmpdir(), "sandlot-timings-")), "folder/timings.json");
  const [short, long] = ["bin/sandlot", "README.md"] as const;
  const { [short]: less = 0, [long]: more = 0 } = expectedMs([short, long], record);
  expect(more).toBeGreaterThan(less);
  recordMs({ [short]: 30_000 }, record);
  recordMs({ b: 10 }, record);
  expect(expectedMs([short, "b", long], record)).toEqual({ [short]: 30_000, b: 10, [long]: more });
  writeFileSync(record, "{ half a rec");
  expect(expectedMs([short], record)).toEqual({ [short]: less });
});

test("lanes run files side by side, except for the whole machine and for time bounds", () => {
  expect(LANES.filter(isSideBySide)).toEqual(["check", "root", "sandboxes"]);
});

test("a run without tests fails", () => {
  expect(hasPassed({ passed: 0, failed: 0 })).toBe(false);
  expect(hasPassed({ passed: 2, failed: 1 })).toBe(false);
  expect(hasPassed({ passed: 2, failed: 0 })).toBe(true);
});

describe("arguments of npm test", () => {
  test("are parts of paths, absolute or relative to the project", () => {
    expect(selectTests([], ALL).files).toEqual(ALL);
    expect(selectTests(["src/edge", "storm"], ALL).files).toEqual([
      "src/edge/routing/service-lookup.test.ts",
      "tests/chaos/storm.test.ts",
    ]);
    expect(selectTests(["./tests/conventions"], ALL).files).toEqual(["tests/conventions/lanes.test.ts"]);
    expect(selectTests([`${PROJECT}/src/guest`], ALL).files).toEqual(["src/guest/sdk.root.test.ts"]);
  });

  test("are options of bun test, each with its value", () => {
    const { options, files } = selectTests(["-t", "a storm", "storm", "--bail=1"], ALL);
    expect(options).toEqual(["-t", "a storm", "--bail=1"]);
    expect(files).toEqual(["tests/chaos/storm.test.ts"]);
  });

  test("that match no test are rejected", () => {
    expect(() => selectTests(["no-such"], ALL)).toThrow('no test has "no-such" in its path');
  });

  test("of npm run check are rejected if they match only tests of other lanes", () => {
    expect(selectOfLane("check", ["lanes", "storm"], ALL).files).toEqual(["tests/conventions/lanes.test.ts"]);
    expect(() => selectOfLane("check", ["tests/chaos"], ALL)).toThrow('no test of the lane "check" has tests/chaos');
  });
});

/** As `bun test` writes it. */
const REPORT = `
src/one.test.ts:
(pass) fine [0.05ms]
error: 1 is not 2
      at one.test.ts:3
(fail) bad [11.34ms]

tests/two.test.ts:
(pass) bad
error: the folder is busy
(fail) (unnamed) [1.43ms]

tests/three.test.ts:

# Unhandled error between tests
-------------------------------
error: Cannot find module './four.ts' from 'tests/three.test.ts'
-------------------------------


2 tests failed:
(fail) bad [11.34ms]
(fail) (unnamed) [1.43ms]
`;

test("each failure is reported once, with its file and output", () => {
  const reader = new FailureReader();
  for (const line of REPORT.split("\n")) reader.take(line);
  expect(reader.failures).toEqual([
    { name: "src/one.test.ts: bad", reason: ["error: 1 is not 2", "      at one.test.ts:3"] },
    { name: "tests/two.test.ts: (unnamed)", reason: ["error: the folder is busy"] },
    {
      name: "tests/three.test.ts: between tests",
      reason: ["error: Cannot find module './four.ts' from 'tests/three.test.ts'"],
    },
  ]);
});

test("a long report keeps its end", () => {
  const reader = new FailureReader();
  for (let line = 1; line <= 1000; line++) reader.take(`line ${line}`);
  reader.take("(fail) talks a lot");
  const { reason } = reader.failures[0] ?? { reason: [] };
  expect([reason.length < 100, reason.at(-1)]).toEqual([true, "line 1000"]);
});

test("warnings and errors of servers are shown for failed files, and repeats also for others", () => {
  const [folder, before] = [mkdtempSync(join(tmpdir(), "server-logs-")), process.env[SERVER_LOGS]];
  process.env[SERVER_LOGS] = folder;
  try {
    const repeated = '{"level":"warn","event":"resume repeated after a failure"}';
    keepServerLine(repeated);
    for (let line = 1; line <= 500; line++) keepServerLine(`{"level":"warn","event":"late ${line}"}`);
    keepServerLine('{"level":"info","event":"request"}');
    keepServerLine("error: a trace");
    const file = "tests/conventions/lanes.test.ts";
    const lines = serverLinesIn(folder, new Set([file]))[file] ?? [];
    expect([lines.length, ...lines.slice(-2)]).toEqual([100, '{"level":"warn","event":"late 500"}', "error: a trace"]);
    expect(serverLinesIn(folder, new Set())).toEqual({ [file]: [repeated] });
    expect(serverLinesIn(join(folder, "none"), new Set())).toEqual({});
  } finally {
    if (before === undefined) delete process.env[SERVER_LOGS];
    else process.env[SERVER_LOGS] = before;
    rmSync(folder, { recursive: true });
  }
});
