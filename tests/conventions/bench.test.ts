/** How benchmark rows are judged and chosen, and that the documentation lists the same rows. */
import { describe, expect, test } from "bun:test";
import { EnvelopeCounter } from "../../bench/clients/start-stream.ts";
import { figuresOf } from "../../bench/figures/report.ts";
import { interleave, quantile } from "../../bench/figures/samples.ts";
import { parseOptions } from "../../bench/options.ts";
import { PLOT_NAMES } from "../../bench/plots/plot-names.ts";
import { type Beside, type Row, ratioOf, verdictOn } from "../../bench/row.ts";
import { ROWS } from "../../bench/rows.ts";
import { tableRows } from "./markdown.ts";
import { readText } from "./source-files.ts";

describe("a row", () => {
  const cost = { ratio: "cost", bounds: { atLeast: 4, aim: 2 } } as const;
  const speed = { ratio: "speed", bounds: { atLeast: 3, aim: 8 } } as const;
  const pairs = { ours: [10, 20, 30], peer: [100, 40, 10] };

  test("of a cost is rated by ours ÷ peer, the lower the better", () => {
    expect(ratioOf(cost, pairs)).toBe(0.5);
    expect([2, 2.1, 4, 4.1].map((ratio) => verdictOn(cost, ratio))).toEqual(["reached", "within", "within", "missed"]);
  });

  test("of a speed is rated by peer ÷ ours, the higher the better", () => {
    expect(ratioOf(speed, pairs)).toBe(2);
    expect([8, 7.9, 3, 2.9].map((ratio) => verdictOn(speed, ratio))).toEqual(["reached", "within", "within", "missed"]);
  });

  test("has a target beyond its bound", () => {
    const bounded = ROWS.flatMap(({ beside }) => (beside?.bounds ? [{ beside, ...beside.bounds }] : []));
    for (const { beside, aim } of bounded) expect(verdictOn(beside, aim)).toBe("reached");
    for (const { beside, atLeast } of bounded) expect(verdictOn(beside, atLeast)).toBe("within");
  });

  test("without bounds is only measured, and one without a peer meets its promise", () => {
    const run = () => Promise.reject(new Error("not to be run"));
    const compared: Row = { name: "a", what: "a", beside: { peer: "b", ratio: "speed" }, run };
    expect(figuresOf(compared, { pairs })).toMatchObject({ ratio: 2, verdict: "measured" });
    expect(figuresOf({ name: "a", what: "a", run }, { notes: ["c"] })).toMatchObject({ verdict: "reached" });
  });

  test("is missed when it breaks a promise, however good the ratio", () => {
    const run = () => Promise.reject(new Error("not to be run"));
    const row: Row = { name: "a", what: "a", beside: { peer: "b", ...speed }, run };
    const good = { ours: [1], peer: [10] };
    expect(figuresOf(row, { pairs: good })).toMatchObject({ verdict: "reached" });
    expect(figuresOf(row, { pairs: good, broken: ["it grew"] })).toMatchObject({ verdict: "missed" });
  });

  test("matches docs/benchmarks.md", () => {
    const documented = tableRows(readText("docs/benchmarks.md"), ["Row", "Measured", "Beside", "At least", "Aim"]);
    expect(documented).toEqual(
      ROWS.map(({ name, what, beside }) => ({
        Row: name,
        Measured: what,
        Beside: beside?.peer ?? "—",
        "At least": bound(beside, "atLeast"),
        Aim: bound(beside, "aim"),
      })),
    );
  });

  function bound(beside: Beside | undefined, name: "atLeast" | "aim"): string {
    const value = beside?.bounds?.[name];
    return value === undefined ? "—" : `${beside?.ratio === "cost" ? "≤" : "≥"} ${value} ×`;
  }
});

describe("a stream of envelopes", () => {
  const stream = [0, 0, 0, 0, 2, 7, 7, 0, 0, 0, 0, 1, 7, 2, 0, 0, 0, 2, 123, 125];

  test("is counted alike for every split", () => {
    for (const size of [1, 3, 7, stream.length]) {
      const counter = new EnvelopeCounter();
      for (let at = 0; at < stream.length; at += size) counter.take(Uint8Array.from(stream.slice(at, at + size)));
      expect(counter).toMatchObject({ messages: 2, bytes: 3, endedWell: true });
    }
  });

  test("that breaks or ends with an error has failed", () => {
    const counter = new EnvelopeCounter();
    counter.take(Uint8Array.from(stream.slice(0, -1)));
    expect(counter.endedWell).toBe(false);
  });
});

describe("samples", () => {
  test("are taken in turns, and the warm-up does not count", async () => {
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
  const given = (...args: string[]) => parseOptions(args, ROWS);

  test("names rounds, rows, the long run and a file", () => {
    const options = given("--rounds", "3", "--row", "create", "--long", "--json", "/tmp/figures.json");
    const jsonFile = "/tmp/figures.json";
    expect(options).toEqual({ rounds: 3, rows: ["create"], quick: false, long: true, plots: [], jsonFile });
    expect(given("--row", "runsc-pause", "--row", "create").rows).toEqual(["runsc-pause", "create"]);
    const rows = ROWS.map(({ name }) => name);
    expect(given()).toEqual({ rounds: 20, rows, quick: false, long: false, plots: [], jsonFile: undefined });
  });

  test("chooses some rows and few rounds for a quick run, unless it names others", () => {
    const some = parseOptions(["--quick"], [{ name: "a" }, { name: "b", quick: true }]);
    expect(some).toMatchObject({ rounds: 5, rows: ["b"], quick: true });
    expect(given("--quick", "--rounds", "2", "--row", "streams")).toMatchObject({ rounds: 2, rows: ["streams"] });
  });

  test("has plots drawn in place of rows, unless it names some", () => {
    expect(given("--plots")).toMatchObject({ plots: [...PLOT_NAMES], rows: [] });
    expect(given("--plot", "pause", "--plot", "burst")).toMatchObject({ plots: ["pause", "burst"], rows: [] });
    expect(given("--plots", "--row", "create")).toMatchObject({ plots: [...PLOT_NAMES], rows: ["create"] });
  });

  test("rejects other arguments", () => {
    const wrong = [
      ["--fast"],
      ["--rounds"],
      ["--rounds", "0"],
      ["--rounds", "1.5"],
      ["--row", "none"],
      ["--plot", "none"],
      ["create"],
    ];
    for (const args of [...wrong, ["--quick", "--long"]]) expect(() => given(...args)).toThrow();
  });
});
