/** The rules that extract a figure's data: its type, units, scales, ticks, labels and values. */
import { beforeAll, expect, test } from "bun:test";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";

const interpreter = interpreterOfFile();

/** Python draws on a figure with one axes, `ax`; its chart must have these properties, among others. */
type Rule = readonly [rule: string, draw: string, chart: Record<string, unknown>];

type Value = string | number | null;

/** A line or the points of a scatter chart. */
function drawn(label: string, ...points: readonly [Value, Value][]) {
  return { label, points };
}

function bar(label: string, value: number, group = expect.any(String)) {
  return { label, group, value };
}

const TYPES: readonly Rule[] = [
  ["lines alone are a line chart", "ax.plot([1, 2, 3])", { type: "line" }],
  ["also those of a threshold", "ax.axhline(3)", { type: "line", elements: [] }],
  ["also those of boxes without an area", "ax.boxplot([[1, 2, 3]])", { type: "line" }],
  ["text is left out", "ax.plot([1, 2, 3]); ax.text(1, 1, 'x')", { type: "line" }],
  ["so is a legend", "ax.scatter([1], [2], label='a'); ax.legend()", { type: "scatter" }],
  ["points with a threshold are points", "ax.scatter([1], [2]); ax.axvline(1)", { type: "scatter" }],
  [
    "points with a slope are not known",
    "ax.scatter([1], [2]); ax.plot([1, 2], [1, 2])",
    { type: "unknown", elements: [] },
  ],
  ["bars with a threshold are bars", "ax.bar(['a'], [2]); ax.axhline(1)", { type: "bar" }],
  ["bars with errors are not known", "ax.bar(['a'], [2], yerr=[1])", { type: "unknown" }],
  ["a histogram is one of bars", "ax.hist([1, 2, 2])", { type: "bar" }],
  ["an area is not known", "ax.fill_between([1, 2], [1, 2])", { type: "unknown" }],
  ["bars beside points are not known", "ax.bar(['a'], [2]); ax.scatter([0], [2])", { type: "unknown" }],
  [
    "axes without data do not count",
    "ax.remove(); axes = figure.subplots(1, 2); axes[1].plot([1, 2, 3])",
    { type: "line" },
  ],
  [
    "two axes with data are a chart of charts",
    "ax.plot([1, 2, 3]); ax.twinx().bar(['a'], [2])",
    { type: "superchart", title: null, elements: [{ type: "line" }, { type: "bar" }] },
  ],
  [
    "three-dimensional plots are unknown",
    "ax.remove(); figure.add_subplot(projection='3d').plot([1, 2], [1, 2], [1, 2])",
    { type: "unknown" },
  ],
  ["a figure without axes is empty", "ax.remove()", {}],
];

const UNITS: readonly Rule[] = [
  ["Time (s)", "s"],
  ["Speed [km/h]", "km/h"],
  ["f(x)", null],
  ["f(x) (m)", "m"],
  ["Rate (a) [b]", "a"],
  ["[b] of (a)", "b"],
  ["Nothing ()", null],
  ["", null],
].map(
  ([label, unit]): Rule => [
    `the unit of "${label}" is ${unit}`,
    `ax.plot([1, 2, 3]); ax.set_xlabel(${JSON.stringify(label)}); ax.set_ylabel(${JSON.stringify(label)})`,
    { x_label: label || null, x_unit: unit, y_label: label || null, y_unit: unit },
  ],
);

const SCALES: readonly Rule[] = [
  ...["log", "symlog", "logit", "asinh"].map(
    (scale): Rule => [
      `a scale has its own name: ${scale}`,
      `ax.plot([0.1, 0.2], [0.1, 0.3]); ax.set_xscale("${scale}")`,
      { x_scale: scale, y_scale: "linear" },
    ],
  ),
  [
    "a scale of a function is called so",
    "ax.plot([1, 2], [1, 3]); ax.set_yscale('function', functions=(lambda x: x, lambda x: x))",
    { y_scale: "function" },
  ],
  [
    "names in the place of numbers are categories",
    "ax.plot(['a', 'b'], [1, 2])",
    {
      x_scale: "categorical",
      x_ticks: [0, 1],
      x_tick_labels: ["a", "b"],
      elements: [drawn("Line 0", ["a", 1], ["b", 2])],
    },
  ],
  [
    "so are ticks from 0 that have names",
    "ax.scatter([0, 1], [1, 2]); ax.set_xticks([0, 1], ['a', 'b'])",
    { x_scale: "categorical" },
  ],
  [
    "ticks from 0 with their numbers are none",
    "ax.plot([0, 1, 2]); ax.set_xticks([0, 1, 2], ['0', '1.0', 'x']); ax.set_yticks([])",
    { x_scale: "linear", x_tick_labels: ["0", "1.0", "x"], y_scale: "linear", y_ticks: [], y_tick_labels: [] },
  ],
  [
    "an axis of dates has them as ticks and as points",
    "days = [datetime.date(2023, 9, 1), datetime.date(2023, 9, 2)]; ax.plot(days, [1, 2]); ax.set_xticks(days)",
    {
      x_scale: "datetime",
      x_ticks: ["2023-09-01T00:00:00+00:00", "2023-09-02T00:00:00+00:00"],
      elements: [drawn("Line 0", ["2023-09-01", 1], ["2023-09-02", 2])],
    },
  ],
  [
    "times are points, too",
    "ax.plot([1, 2], [datetime.datetime(2023, 9, 1, 12, 30), datetime.datetime(2023, 9, 2)])",
    { y_scale: "datetime", elements: [drawn("Line 0", [1, "2023-09-01T12:30:00"], [2, "2023-09-02T00:00:00"])] },
  ],
  [
    "times of numpy are told to the second",
    "ax.plot(np.array(['2023-09-01T01:02:03.456', 'NaT'], dtype='datetime64[ms]'), [1, 2])",
    { x_scale: "datetime", elements: [drawn("Line 0", ["2023-09-01T01:02:03", 1], [null, 2])] },
  ],
  [
    "plots of pandas have dates, too",
    "pd.Series([1, 2], index=pd.date_range('2023-09-01', periods=2)).plot(ax=ax, label='s')",
    {
      type: "line",
      x_scale: "datetime",
      elements: [drawn("s", ["2023-09-01T00:00:00", 1], ["2023-09-02T00:00:00", 2])],
    },
  ],
  [
    "columns of pandas are drawn by their times",
    "ax.plot(pd.Series(pd.to_datetime(['2023-09-01', '2023-09-02'])), pd.Series([1.5, 2]))",
    {
      x_scale: "datetime",
      elements: [drawn(expect.any(String), ["2023-09-01T00:00:00", 1.5], ["2023-09-02T00:00:00", 2])],
    },
  ],
];

const LINES: readonly Rule[] = [
  [
    "lines of two points along an axis are left out, others not",
    "ax.plot([1, 1], [1, 2]); ax.plot([1, 2], [3, 3]); ax.plot([1, 2], [3, 4], label='kept')",
    { elements: [drawn("kept", [1, 3], [2, 4])] },
  ],
  [
    "a gap is null, and so is what no number can tell",
    "ax.plot([1, 2, 3], [1, float('nan'), float('inf')]); ax.plot([1, 2, 3], np.ma.masked_equal([1, 0, 2], 0))",
    { elements: [drawn("Line 0", [1, 1], [2, null], [3, null]), drawn("Line 1", [1, 1], [2, null], [3, 2])] },
  ],
  [
    "points that are hidden are null, and labels of collections stay",
    "ax.scatter(np.ma.masked_equal([1, 0], 0), [1, 2], label='_mine')",
    { type: "scatter", elements: [drawn("_mine", [1, 1], [null, null])] },
  ],
  [
    "numbers of other kinds are floats",
    "import decimal; ax.plot([True, False, True], [decimal.Decimal('1.5'), 2, 3])",
    { elements: [drawn("Line 0", [1, 1.5], [0, 2], [1, 3])] },
  ],
];

const BARS: readonly Rule[] = [
  [
    "lying bars have the labels of the other axis",
    "ax.barh(['a', 'b'], [1, 2]); ax.set_xlabel('Count (pieces)'); ax.set_ylabel('Who [name]')",
    {
      x_label: "Who [name]",
      x_unit: "name",
      y_label: "Count (pieces)",
      y_unit: "pieces",
      elements: [bar("a", 1, "Group 0"), bar("b", 2, "Group 0")],
    },
  ],
  [
    "bars of one height stand",
    "ax.bar(['a', 'b'], [1, 1]); ax.set_xlabel('x')",
    {
      x_label: "x",
      elements: [bar("a", 1), bar("b", 1)],
    },
  ],
  [
    "groups of bars beside their ticks have the labels of these",
    `
x = np.arange(2)
for i in range(3): ax.bar(x + (i - 1) * 0.25, [i, i + 1], 0.25, label=f"g{i}")
ax.set_xticks(x, ["one", "two"])`,
    {
      elements: [0, 1, 2].flatMap((group) => [bar("one", group, `g${group}`), bar("two", group + 1, `g${group}`)]),
    },
  ],
  [
    "bars at numbers have the labels of the ticks below them",
    "ax.bar([2019, 2020, 2021, 2022], [1, 2, 3, 4]); ax.set_xticks([2018, 2020, 2022])",
    { elements: [bar("2019", 1), bar("2020", 2), bar("2021", 3), bar("2022", 4)] },
  ],
  [
    "bars of pandas are grouped by column",
    "pd.DataFrame({'p': [1, 2], 'q': [3, 4]}, index=['i', 'j']).plot.bar(ax=ax)",
    { elements: [bar("i", 1, "p"), bar("j", 2, "p"), bar("i", 3, "q"), bar("j", 4, "q")] },
  ],
];

const BOXES: readonly Rule[] = [
  [
    "lying boxes are read along the other axis",
    "ax.boxplot([[1, 2, 3, 4, 100]], orientation='horizontal', patch_artist=True, tick_labels=['a'])",
    {
      type: "box_and_whisker",
      elements: [{ label: "a", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [100] }],
    },
  ],
  [
    "marks of the mean are no outliers, and its line no median",
    `
ax.boxplot([[1, 2, 3, 4, 100]], patch_artist=True, showmeans=True)
ax.boxplot([[1, 2, 4, 6, 7]], positions=[2], patch_artist=True, showmeans=True, meanline=True)`,
    {
      elements: [
        { label: "1", median: 3, outliers: [100] },
        { label: "2", median: 4, outliers: [] },
      ],
    },
  ],
  [
    "the median is found in a notch, where caps are as wide, and on an edge",
    `
ax.boxplot([[1, 2, 3, 4, 100]], patch_artist=True, notch=True, conf_intervals=[[2.5, 3.5]])
ax.boxplot([[1, 1, 1, 4, 6]], positions=[2], patch_artist=True, showmeans=True, meanline=True)`,
    {
      elements: [
        { median: 3, outliers: [100] },
        { first_quartile: 1, median: 1, third_quartile: 4 },
      ],
    },
  ],
  [
    "values are rounded",
    "ax.boxplot([[0.1 + 0.2] * 5], patch_artist=True)",
    { elements: [{ min: 0.3, first_quartile: 0.3, median: 0.3, third_quartile: 0.3, max: 0.3, outliers: [] }] },
  ],
  [
    "the old name of labels is taken",
    "ax.boxplot([[1, 2, 3]], labels=['old'], patch_artist=True)",
    { elements: [{ label: "old", median: 2 }] },
  ],
];

const PIES: readonly Rule[] = [
  [
    "angles are rounded",
    "ax.pie([1, 2], labels=['a', 'b'], radius=2, counterclock=False, explode=[0.1, 0])",
    {
      type: "pie",
      elements: [
        { label: "a", angle: 120, radius: 2 },
        { label: "b", angle: 240, radius: 2 },
      ],
    },
  ],
  ["a pie may have no labels", "ax.pie([1])", { elements: [{ label: "", angle: 360, radius: 1 }] }],
];

const RULES = [...TYPES, ...UNITS, ...SCALES, ...LINES, ...BARS, ...BOXES, ...PIES];
const charts: Record<string, unknown> = {};

// All in one cell, and without their pictures.
beforeAll(async () => {
  const draws = JSON.stringify(Object.fromEntries(RULES.map(([rule, draw]) => [rule, draw])));
  const { logs, error } = await interpreter().runCode(`
import datetime, json, warnings
import matplotlib.pyplot as plt, numpy as np, pandas as pd
warnings.simplefilter("ignore")
to_chart = get_ipython().display_formatter.formatters["e2b/chart"]
found = {}
for rule, draw in json.loads(${JSON.stringify(draws)}).items():
    figure, ax = plt.subplots()
    exec(draw)
    found[rule] = to_chart(figure)
    plt.close(figure)
print(json.dumps(found, allow_nan=False))`);
  expect(error).toBeUndefined();
  Object.assign(charts, JSON.parse(logs.stdout.join("")));
});

test.each(RULES)("%s", (rule, _draw, chart) => {
  if (Object.keys(chart).length === 0) expect(charts[rule]).toEqual({});
  expect(charts[rule]).toMatchObject(chart);
});

test.each([
  [324.000_01, 324],
  [35.999_998_4, 36],
  [12.345_678_9, 12.345_68],
  [1_234.567_89, 1_234.6],
  [123_456_789, 100_000_000],
  [0, 0],
  [-0.123_456_789_012, -0.123_456_789],
])("%p is rounded to %p", async (value, rounded) => {
  const round = "__import__('sandlot_kernel.charts.values', fromlist=['rounded']).rounded";
  expect((await interpreter().runCode(`${round}(${value})`)).text).toBe(
    rounded.toFixed(12).replace(/\.?0+$/, "") + (Number.isInteger(rounded) ? ".0" : ""),
  );
});
