/** Which differences change a layer's key, and which do not. */
import { expect, test } from "bun:test";
import type { BuildStep } from "../contract/internal/host.ts";
import { imageKey, originKey, startKey, stepKey } from "./layer-key.ts";

const run: BuildStep = { type: "run", command: "true", user: null, force: false };
const copy: BuildStep = { type: "copy", files: "f/1", source: "a", target: "b", owner: null, mode: null, force: false };
const origin = (owner = "team", from: unknown[] = ["base", null], size = 1024) => originKey(owner, from, size);

test("the same steps on the same base have the same key, forced or not", () => {
  expect(stepKey(origin(), run)).toBe(stepKey(origin(), { user: null, command: "true", force: true, type: "run" }));
  expect(stepKey(origin(), run)).toMatch(/^[0-9a-f]{64}$/);
});

test("every difference of owner, base, disk, step or files changes the key", () => {
  const keys = [
    origin(),
    origin("other"),
    origin("team", ["base", "checkpoint"]),
    origin("team", ["base", null], 2048),
    stepKey(origin(), run),
    stepKey(origin("other"), run),
    stepKey(stepKey(origin(), run), run),
    stepKey(origin(), { ...run, user: "root" }),
    stepKey(origin(), { ...run, command: "false" }),
    stepKey(origin(), copy),
    stepKey(origin(), { ...copy, files: "f/2" }),
    stepKey(origin(), { ...copy, source: "b", target: "a" }),
    stepKey(origin(), { type: "env", variables: [["A", "B"]], force: false }),
    stepKey(origin(), { type: "env", variables: [["AB", ""]], force: false }),
    imageKey(origin(), "one"),
    imageKey(origin(), "two"),
    startKey(origin(), { command: "true", ready: null }, [1, 2]),
    startKey(origin(), { command: "true", ready: "" }, [1, 2]),
    startKey(origin(), { command: "true", ready: null }, [12]),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});
