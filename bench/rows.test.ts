/** How rows are judged and chosen; and that the documentation has the same rows. */
import { describe, expect, test } from "bun:test";
import { tableRows } from "../tests/house/markdown.ts";
import { readText } from "../tests/house/source-files.ts";
import { parseOptions } from "./options.ts";
import { ratioOf, verdictOn } from "./row.ts";
import { ROWS } from "./rows.ts";
import { interleave, quantile } from "./samples.ts";

describe("a row", () => {
  const cost = { ratio: "cost", atLeast: 4, aim: 2 } as const;
  const speed = { ratio: "speed", atLeast: 3, aim: 8 } as const;
  const pairs = { ours: [10, 20, 30], peer: [100, 40, 10] };

  test("that costs is judged by ours ÷ peer, the lower the better", () => {
    expect(ratioOf(cost, pairs)).toBe(0.5);
    expect([2, 2.1, 4, 4.1].map((ratio) => verdictOn(cost, ratio))).toEqual(["reached", "within", "within", "missed"]);
  });

  test("that is to be faster is judged by peer ÷ ours, the higher the better", () => {
    expect(ratioOf(speed, pairs)).toBe(2);
    expect([8, 7.9, 3, 2.9].map((ratio) => verdictOn(speed, ratio))).toEqual(["reached", "within", "within", "missed"]);
  });

  test("aims higher than it demands", () => {
    for (const row of ROWS) expect(verdictOn(row, row.aim)).toBe("reached");
    for (const row of ROWS) expect(verdictOn(row, row.atLeast)).toBe("within");
  });

  test("is in docs/benchmarks.md as it is here", () => {
    const documented = tableRows(readText("docs/benchmarks.md"), ["Row", "Measured", "Beside", "At least", "Aim"]);
    const sign = (ratio: "cost" | "speed") => (ratio === "cost" ? "≤" : "≥");
    expect(documented).toEqual(
      ROWS.map(({ name, what, peer, ratio, atLeast, aim }) => ({
        Row: name,
        Measured: what,
        Beside: peer,
        "At least": `${sign(ratio)} ${atLeast} ×`,
        Aim: `${sign(ratio)} ${aim} ×`,
      })),
    );
  });
});

describe("samples", () => {
  test("are taken turn and turn about, and the warm-up does not count", async () => {
    let clock = 0;
    const pairs = await interleave(
      2,
      async () => ++clock,
      async () => ++clock,
    );
    expect(pairs).toEqual({ ours: [5, 7], peer: [6, 8] });
  });

  test("have quantiles between the nearest two", () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([7], 0.9)).toBe(7);
    expect(() => quantile([], 0.5)).toThrow();
  });
});

describe("the command line", () => {
  test("names rounds, one row and a file", () => {
    const options = parseOptions(["--rounds", "3", "--row", "create", "--json", "/tmp/figures.json"]);
    expect(options).toEqual({ rounds: 3, rows: ["create"], jsonFile: "/tmp/figures.json" });
    expect(parseOptions([])).toEqual({ rounds: 20, rows: ROWS.map(({ name }) => name), jsonFile: undefined });
  });

  test("is refused when it says anything else", () => {
    const wrong = [["--fast"], ["--rounds"], ["--rounds", "0"], ["--rounds", "1.5"], ["--row", "none"], ["create"]];
    for (const args of wrong) expect(() => parseOptions(args)).toThrow();
  });
});
