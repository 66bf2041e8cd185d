/** Steps as the server writes them, and the table that is made of them. */
import { describe, expect, test } from "bun:test";
import type { Step } from "../../src/base/steps.ts";
import { parseTraceOptions } from "./options.ts";
import { traceTable } from "./trace-table.ts";

const AT = 1_800_000_000_000;
const exchange = { beganAt: AT, wallMs: 100, clientMs: 2, machineMs: 80 };

function step(number: number, within: number | null, name: string, from: number, to: number, uses = {}): Step {
  return { number, within, name, beganAt: AT + from, wallMs: to - from, uses };
}

/** Name and figures of each line that has any, without the spaces that make columns. */
function linesOf(steps: Step[]): string[] {
  const lines = traceTable("create", exchange, steps).split("\n");
  return lines.map((line) => line.trimEnd().replace(/(\S) +/g, "$1 "));
}

describe("a table of steps", () => {
  test("nests steps, shows the time between them, and adds up", () => {
    const lines = linesOf([
      step(3, 2, "crun create", 30, 60, { server: 1, sandboxes: 4, helpers: 10 }),
      step(2, 1, "boot", 20, 80, { server: 5, sandboxes: 9, helpers: 10 }),
      step(1, null, "POST /v2/sandboxes", 10, 90, { server: 8, sandboxes: 9, helpers: 10 }),
    ]);
    expect(lines.slice(2)).toEqual([
      "the client 100.0",
      "  POST /v2/sandboxes 80.0 8.0 10.0 9.0",
      "    boot 60.0 5.0 10.0 9.0",
      "      crun create 30.0 1.0 10.0 4.0",
      "      (between these) 30.0 4.0 0.0 0.0 0.0 0.0 5.0",
      "    (between these) 20.0 3.0 0.0 0.0 0.0 0.0 0.0",
      "sum of the steps 80.0 8.0 0.0 0.0 0.0 10.0 9.0",
      "wall time in no step of the server (client, kernel, the way there and back): 20.0 ms",
      "processor time: 27.0 ms in steps, 2.0 ms of the client; 51.0 ms elsewhere on this machine (to 10 ms)",
    ]);
  });

  test("shows a request within the edge's step, with its programs", () => {
    const lines = linesOf([
      step(2, null, "POST /fork", 10, 90, { server: 3, helpers: 7 }),
      step(1, null, "edge: wait for the response", 5, 95, { server: 4 }),
    ]);
    expect(lines.slice(3, 5)).toEqual(["  edge: wait for the response 90.0 4.0 7.0", "    POST /fork 80.0 3.0 7.0"]);
    expect(lines).toContain("sum of the steps 90.0 4.0 0.0 0.0 0.0 7.0 0.0");
  });

  test("counts no time twice in overlapping steps", () => {
    const lines = linesOf([
      step(2, 1, "left", 0, 60, { server: 4 }),
      step(3, 1, "right", 40, 80, { server: 4 }),
      step(1, null, "whole", 0, 100, { server: 5 }),
    ]);
    expect(lines).toContain("    (between these) 20.0");
  });

  test("leaves out earlier steps, and shows later ones separately", () => {
    const lines = linesOf([
      step(1, null, "before", -50, -10),
      step(2, null, "asked", 10, 20),
      step(3, 2, "refill", 90, 400),
      { ...step(4, null, "odd", 30, 40), failed: true },
    ]);
    expect(lines.join("\n")).not.toContain("before");
    const apart = lines.indexOf("done besides, or gone on with after the answer:");
    expect(lines.indexOf("  refill 310.0")).toBe(apart + 1);
    expect(lines).toContain("  odd (failed) 10.0");
  });
});

test("the command accepts traceable operations, and lists them", () => {
  expect(parseTraceOptions(["create", "exec", "--ready"])).toEqual({ kinds: ["create", "exec"], ready: true });
  expect(() => parseTraceOptions([])).toThrow("OPERATION... is missing");
  expect(() => parseTraceOptions(["destroy"])).toThrow(
    '"destroy" cannot be traced; one or more of create, exec, fork, pause, resume can',
  );
});
