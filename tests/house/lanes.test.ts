import { describe, expect, test } from "bun:test";
import { filesOfLane, laneOf, selectTests } from "../lanes.ts";
import { PROJECT } from "./source-files.ts";

const ALL = [
  "src/edge/reach.test.ts",
  "src/edge/reach.performance.test.ts",
  "src/guest/sdk.root.test.ts",
  "tests/chaos/storm.test.ts",
  "tests/house/lanes.test.ts",
  "tests/performance/hundreds.test.ts",
];

test("the lane of a test is told by its place and name", () => {
  expect(ALL.map(laneOf)).toEqual(["check", "performance", "root", "sandboxes", "check", "performance"]);
  expect(filesOfLane("performance", ALL)).toEqual([ALL[1] ?? "", ALL[5] ?? ""]);
});

describe("arguments of npm test", () => {
  test("are parts of paths, with or without the way to the project", () => {
    expect(selectTests([], ALL).files).toEqual(ALL);
    expect(selectTests(["src/edge", "storm"], ALL).files).toEqual([ALL[0] ?? "", ALL[1] ?? "", ALL[3] ?? ""]);
    expect(selectTests(["./tests/house"], ALL).files).toEqual([ALL[4] ?? ""]);
    expect(selectTests([`${PROJECT}/src/guest`], ALL).files).toEqual([ALL[2] ?? ""]);
  });

  test("are options of bun test, each with its value", () => {
    const { options, files } = selectTests(["-t", "a storm", "storm", "--bail=1"], ALL);
    expect(options).toEqual(["-t", "a storm", "--bail=1"]);
    expect(files).toEqual(["tests/chaos/storm.test.ts"]);
  });

  test("that no test has in its path are refused", () => {
    expect(() => selectTests(["no-such"], ALL)).toThrow('no test has "no-such" in its path');
  });
});
