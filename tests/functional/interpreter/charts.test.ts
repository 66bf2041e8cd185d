/** Figures as data: each type of chart, through the client. The rules of extraction: chart-rules.test.ts. */
import { expect, test } from "bun:test";
import type { Result } from "@e2b/code-interpreter";
import { interpreterOfFile, rawLines } from "../../support/interpreter/interpreter-of-file.ts";

const interpreter = interpreterOfFile();

/** Members of a chart with two axes that were given no names. */
const UNNAMED = { title: null, x_label: null, y_label: null, x_unit: null, y_unit: null };
const FROM_0_TO_2 = {
  x_ticks: [0, 1, 2],
  x_tick_labels: ["0", "1", "2"],
  x_scale: "linear",
  y_ticks: [0, 1, 2],
  y_tick_labels: ["0", "1", "2"],
  y_scale: "linear",
};

/** `0 0.5; 1 1` as pairs of numbers. */
function pairs(text: string): number[][] {
  return text.split("; ").map((pair) => pair.split(" ").map(Number));
}

interface Plot {
  type: string;
  code: string;
  chart: Record<string, unknown>;
}

const PLOTS: readonly Plot[] = [
  {
    type: "line",
    code: `
plt.plot([0, 1, 2], [0.5, 1, 1.5], label="growth")
plt.plot([0, 1, 2], [2, 0, 2])
plt.title("Two lines"); plt.xlabel("Time (s)"); plt.ylabel("Height [m]")
plt.xticks([0, 1, 2]); plt.yticks([0, 1, 2])`,
    chart: {
      type: "line",
      title: "Two lines",
      x_label: "Time (s)",
      y_label: "Height [m]",
      x_unit: "s",
      y_unit: "m",
      ...FROM_0_TO_2,
      elements: [
        { label: "growth", points: pairs("0 0.5; 1 1; 2 1.5") },
        { label: "Line 1", points: pairs("0 2; 1 0; 2 2") },
      ],
    },
  },
  {
    type: "scatter",
    code: `
plt.scatter([0, 2], [0.5, 1.5], label="seen")
plt.scatter([1], [1])
plt.xticks([0, 1, 2]); plt.yticks([0, 1, 2])`,
    chart: {
      ...UNNAMED,
      type: "scatter",
      ...FROM_0_TO_2,
      elements: [
        { label: "seen", points: pairs("0 0.5; 2 1.5") },
        { label: "_child1", points: pairs("1 1") },
      ],
    },
  },
  {
    type: "bar",
    code: `
plt.bar(["A", "B"], [100, 200.5], label="Sold")
plt.bar(["A", "B"], [10, 20])
plt.title("Sales"); plt.ylabel("Books (pieces)")`,
    chart: {
      ...UNNAMED,
      type: "bar",
      title: "Sales",
      y_label: "Books (pieces)",
      y_unit: "pieces",
      elements: [
        { label: "A", group: "Sold", value: 100 },
        { label: "B", group: "Sold", value: 200.5 },
        { label: "A", group: "Group 1", value: 10 },
        { label: "B", group: "Group 1", value: 20 },
      ],
    },
  },
  {
    type: "box_and_whisker",
    code: `
plt.boxplot([[85, 90, 78, 92, 88], [1, 2, 3, 4, 100]], tick_labels=["A", "B"], patch_artist=True)
plt.xlabel("Class")`,
    chart: {
      ...UNNAMED,
      type: "box_and_whisker",
      x_label: "Class",
      elements: [
        { label: "A", min: 78, first_quartile: 85, median: 88, third_quartile: 90, max: 92, outliers: [] },
        { label: "B", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [100] },
      ],
    },
  },
  {
    type: "pie",
    code: `
plt.pie([90, 10], labels=["No", "Yes"], autopct="%d%%", startangle=30)
plt.title("Will I wake up early?")`,
    chart: {
      type: "pie",
      title: "Will I wake up early?",
      elements: [
        { label: "No", angle: 324, radius: 1 },
        { label: "Yes", angle: 36, radius: 1 },
      ],
    },
  },
  {
    type: "superchart",
    code: `
figure, (left, right) = plt.subplots(1, 2)
left.pie([1], labels=["all"]); left.set_title("One")
right.imshow([[1, 2], [3, 4]]); right.set_title("Other")
figure.suptitle("Both")`,
    chart: {
      type: "superchart",
      title: "Both",
      elements: [
        { type: "pie", title: "One", elements: [{ label: "all", angle: 360, radius: 1 }] },
        { type: "unknown", title: "Other", elements: [] },
      ],
    },
  },
  {
    type: "unknown",
    code: 'plt.imshow([[1, 2], [3, 4]]); plt.title("Pixels")',
    chart: { type: "unknown", title: "Pixels", elements: [] },
  },
];

test.each(PLOTS)("a figure of the type $type has its data beside its picture", async ({ code, chart }) => {
  const result = await shown(`${code}\nplt.show()`);
  expect(result.chart as unknown).toEqual(chart);
  expect(result.isMainResult).toBe(false);
  expect(result.extra).toEqual({});
  expect(result.formats()).toEqual(["png"]);
  expect(
    Buffer.from(result.png ?? "", "base64")
      .subarray(1, 4)
      .toString(),
  ).toBe("PNG");
});

test("an empty figure has an empty chart", async () => {
  const { chart, text } = await shown("plt.figure()\nplt.show()");
  expect([chart as unknown, text]).toEqual([{}, "<Figure size 640x480 with 0 Axes>"]);
  expect((await shown("plt.subplots()\nplt.show()")).chart as unknown).toEqual({});
});

test("a figure is displayed at the end of its cell, and as a value", async () => {
  expect((await shown("_ = plt.plot([1, 2, 4])")).chart).toMatchObject({ type: "line" });
  const { results } = await interpreter().runCode(
    "from matplotlib.figure import Figure\nf = Figure(); f.subplots().bar(['a'], [1]); f",
  );
  expect(results.map(({ isMainResult, chart }) => [isMainResult, chart?.type])).toEqual([[true, "bar"]] as never);
});

test("chart numbers are floats and labels are strings on the wire", async () => {
  const lines = await rawLines(
    interpreter(),
    `${IMPORT}\nplt.plot([0, 1, 2], [4, 5, 6]); plt.xticks([0, 2]); plt.show()`,
  );
  const result = lines.find((line) => line.startsWith('{"type":"result"'));
  expect(result).toContain('"points":[[0.0,4.0],[1.0,5.0],[2.0,6.0]]');
  expect(result).toContain('"x_ticks":[0.0,2.0]');
  expect(result).toContain('"x_tick_labels":["0","2"]');
});

test("a figure with too many points is only a picture", async () => {
  const { chart, png } = await shown("plt.plot(range(1_000_000)); plt.show()");
  expect([chart as unknown, typeof png]).toEqual([{}, "string"]);
});

test("a figure that cannot be drawn is an error, and its text and data are returned", async () => {
  const { error, results } = await interpreter().runCode(
    `${IMPORT}\nplt.plot([1, 2, 4]); plt.title("$\\\\nope$"); plt.show()`,
  );
  expect(error?.name).toBe("ValueError");
  expect(results.map(({ text, chart }) => [text, chart?.type])).toEqual([
    ["<Figure size 640x480 with 1 Axes>", "line"],
  ] as never);
});

const IMPORT = "import matplotlib.pyplot as plt";

/** The one result of a cell. */
async function shown(code: string): Promise<Result> {
  const { results, error, logs } = await interpreter().runCode(`${IMPORT}\n${code}`);
  expect([error, logs.stderr]).toEqual([undefined, []]);
  const [result] = results;
  if (result === undefined || results.length !== 1) throw new Error(`${results.length} results`);
  return result;
}
