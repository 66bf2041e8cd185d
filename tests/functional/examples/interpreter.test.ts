/** Runs the examples for the code interpreter. */
import { expect, test } from "bun:test";
import { runExample } from "../../support/programs/example.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");

test("examples/data-analysis.mjs sees an error, corrects it, and ends with a chart", async () => {
  const output = await runExample("data-analysis.mjs", server());
  expect(output).toEqual([
    "cell 1: IntCastingNaNError",
    "cell 2: done",
    "cups in all: 204",
    "cell 3: done",
    "shop",
    "north    45.0",
    "south    34.5",
    "Name: cups, dtype: float64",
    "cell 4: done",
    "chart: line of north, south",
  ]);
});

test("examples/explore-by-fork.mjs continues from one state in ten copies", async () => {
  const output = await runExample("explore-by-fork.mjs", server());
  const errors = output.slice(0, -1).map((line) => Number(/^degree \d+: (\d\.\d{4})$/.exec(line)?.[1]));
  expect(errors).toHaveLength(10);
  const best = errors.indexOf(Math.min(...errors));
  expect(best).toBeGreaterThan(1);
  expect(output.at(-1)).toBe(`best: degree ${best}; the notebook itself: False`);
});
