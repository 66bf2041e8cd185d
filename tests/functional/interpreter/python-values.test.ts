/** Results of Python cells: lists and dicts as JSON, data frames as columns, and all of them as text. */
import { beforeAll, expect, test } from "bun:test";
import type { Result } from "@e2b/code-interpreter";
import { inBytes } from "../../../src/contract/limit.ts";
import { tableRows } from "../../conventions/markdown.ts";
import { readText } from "../../conventions/source-files.ts";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";

const interpreter = interpreterOfFile();

const IMPORTS = `
import datetime, decimal, enum, uuid
import numpy as np, pandas as pd
from IPython.display import display`;

interface Value {
  value: string;
  json?: unknown;
}

const LISTS_AND_DICTS: readonly Value[] = [
  { value: "[1, 2.5, 'x', None, True]", json: [1, 2.5, "x", null, true] },
  { value: "{'a': {'b': [1, (2, 3)]}}", json: { a: { b: [1, [2, 3]] } } },
  { value: "[]", json: [] },
  { value: "{1: 'int', 2.5: 'float', None: 'none', True: 'bool'}", json: { 2.5: "float", null: "none", 1: "bool" } },
  { value: "{np.int64(3): np.float32(0.5), np.str_('k'): np.bool_(True)}", json: { 3: 0.5, k: true } },
  { value: "[np.arange(4)[::2], np.array([[1.5, np.nan]])]", json: [[0, 2], [[1.5, null]]] },
  { value: "[float('nan'), float('inf'), -float('inf')]", json: [null, null, null] },
  { value: "[pd.NaT, pd.NA, pd.Timestamp('2024-01-02')]", json: [null, null, "2024-01-02T00:00:00"] },
  { value: "[datetime.date(2024, 1, 2), datetime.time(3, 4)]", json: ["2024-01-02", "03:04:00"] },
  { value: "{datetime.date(2024, 1, 2): 1}", json: { "2024-01-02": 1 } },
  { value: "[uuid.UUID(int=1)]", json: ["00000000-0000-0000-0000-000000000001"] },
  { value: "[np.datetime64('2024-01-02')]", json: ["2024-01-02T00:00:00"] },
  { value: "[2**63 - 1, -1]", json: [2 ** 63, -1] },
  { value: "__import__('collections').OrderedDict(a=1)", json: { a: 1 } },
  { value: "['\\u2028 \\u00e9 \\U0001f600']", json: ["\u2028 \u00e9 \u{1f600}"] },
  // A value that JSON cannot express is shown only as text.
  { value: "[object()]" },
  { value: "[{1, 2}]" },
  { value: "[1j]" },
  { value: "[b'x']" },
  { value: "{(1, 2): 3}" },
  { value: "(lambda a: a.append(a) or a)([1])" },
  { value: "__import__('functools').reduce(lambda inner, _: [inner], range(400), [])" },
  { value: "(1, 2)" },
  { value: "'text'" },
];

const shown: Result[] = [];

beforeAll(async () => {
  const cell = `${IMPORTS}\n${LISTS_AND_DICTS.map(({ value }) => `display(${value})`).join("\n")}`;
  const { results, error, logs } = await interpreter().runCode(cell);
  expect([error, logs.stderr]).toEqual([undefined, []]);
  shown.push(...results);
});

test.each(LISTS_AND_DICTS.map((value, at) => ({ ...value, at })))("$value", ({ json, at }) => {
  expect(shown[at]?.json as unknown).toEqual(json);
  expect(shown[at]?.text?.length).toBeGreaterThan(0);
});

test("a data frame is returned by its columns", async () => {
  const { results, error, logs } = await interpreter().runCode(`${IMPORTS}
pd.DataFrame({
    "int": [1, 2, 3],
    "float": [1.5, np.nan, np.inf],
    "text": ["a", None, "\\u00e9"],
    "time": pd.to_datetime(["2024-01-02 03:04:05", None, "2024-01-03 00:00:00"]),
    "zone": pd.to_datetime(["2024-01-02", "2024-01-03", None]).tz_localize("Europe/Berlin"),
    "length": pd.to_timedelta(["1 day", None, "2s"]),
    "day": [datetime.date(2024, 1, 2), None, pd.NaT],
    "maybe": pd.array([1, None, 3], dtype="Int64"),
    "flag": [True, False, True],
    "perhaps": pd.array([True, None, False], dtype="boolean"),
    "kind": pd.Categorical(["x", None, "y"]),
    "month": pd.period_range("2024-01", periods=3, freq="M"),
    "any": [{"a": np.int64(1)}, [1, 2], {1}],
    "money": [decimal.Decimal("1.50"), 2**70, 1j],
})`);
  expect([error, logs.stderr]).toEqual([undefined, []]);
  expect(results.map(({ isMainResult }) => isMainResult)).toEqual([true]);
  expect(results[0]?.html).toStartWith("<div>");
  expect(results[0]?.text).toContain("2024-01-02 03:04:05");
  expect(results[0]?.data as unknown).toEqual({
    int: [1, 2, 3],
    float: [1.5, null, null],
    text: ["a", null, "\u00e9"],
    time: ["2024-01-02T03:04:05", null, "2024-01-03T00:00:00"],
    zone: ["2024-01-02T00:00:00+01:00", "2024-01-03T00:00:00+01:00", null],
    length: ["P1DT0H0M0S", null, "P0DT0H0M2S"],
    day: ["2024-01-02", null, null],
    maybe: [1, null, 3],
    flag: [true, false, true],
    perhaps: [true, null, false],
    kind: ["x", null, "y"],
    month: ["2024-01", "2024-02", "2024-03"],
    any: [{ a: 1 }, [1, 2], "{1}"],
    money: ["1.50", 2 ** 70, "1j"],
  });
});

test("columns of a data frame have unique names", async () => {
  const { results } = await interpreter().runCode(`${IMPORTS}
display(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "a.1"]))
display(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])))
display(pd.DataFrame([[1, 2]], columns=[7, pd.Timestamp("2024-01-02")]))
display(pd.DataFrame({"x": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])))
display(pd.DataFrame())
class Own(pd.DataFrame): pass
display(Own({"x": [1]}))
display(pd.Series([1]))`);
  expect(results.map(({ data }) => data as unknown)).toEqual([
    { a: [1], "a.1": [2], "a.1.1": [3] },
    { "a, 1": [1], "b, 2": [2] },
    { 7: [1], "2024-01-02T00:00:00": [2] },
    { x: [1, 2] },
    {},
    { x: [1] },
    undefined,
  ]);
});

test("a data frame with too many cells is returned as text and HTML only", async () => {
  const { results } = await interpreter().runCode(`${IMPORTS}\npd.DataFrame(np.zeros((1_000_001, 1)))`);
  expect(results.map(({ data, html, text }) => [data, typeof html, text?.slice(-24)])).toEqual([
    [undefined, "string", "[1000001 rows x 1 columns]".slice(-24)],
  ] as never);
});

test("docs/interpreter.md has the limits of results", () => {
  const source = readText("templates/code-interpreter-v1/files/opt/sandlot/python/sandlot_kernel/limits.py");
  const rows = tableRows(readText("docs/interpreter.md"), ["Beside the text", "Largest", "In", "Beyond it"]);
  const reported = rows.map(({ Largest: value, In: name }) => [name, value]);
  const held = [...source.matchAll(/^(\w+) = ([\d_* ]+)$/gm)].map(([, name = "", text = ""]) => {
    const value = text.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "")), 1);
    return [name, name.endsWith("_BYTES") ? inBytes(value) : value.toLocaleString("en").replaceAll(",", " ")];
  });
  expect(held.length).toBe(3);
  expect(reported).toEqual(held);
});

test("long sequences are shown completely and quickly", async () => {
  const { results } = await interpreter().runCode(`${IMPORTS}
display(list(range(2000)))
display({i: i for i in range(200_000)})
display([object] + [1] * 1500)`);
  expect(results[0]?.text?.split("\n").slice(-2)).toEqual([" 1998,", " 1999]"]);
  expect(results[1]?.text?.split("\n").slice(-2)).toEqual([" 199998: 199998,", " 199999: 199999}"]);
  expect(Object.keys(results[1]?.json ?? {}).length).toBe(200_000);
  expect(results[2]?.text?.split("\n").length).toBe(1501);
});

test("variables of a call are set unchanged, and TZ takes effect", async () => {
  const code = "import os, time; (ascii(os.environ.get('FACE')), time.strftime('%Z'))";
  const during = await interpreter().runCode(code, { envs: { FACE: "\u{1f600} '\n", TZ: "Asia/Tokyo" } });
  const after = await interpreter().runCode(code);
  expect([during.text, after.text]).toEqual([`('"\\\\U0001f600 \\'\\\\n"', 'JST')`, "('None', 'UTC')"]);
});

test("preloaded modules are not in the user's namespace, and unused ones are not loaded", async () => {
  const { logs } = await interpreter().runCode(
    `
print(sorted(name for name in globals() if not name.startswith("_")))
import os, sys
print([name for name in ("numpy", "pandas", "matplotlib.pyplot", "PIL.Image") if name not in sys.modules])
print("jedi" in sys.modules, __import__("jedi").__name__, sys.getrecursionlimit())
print("PYTHONPATH" in os.environ, "" in sys.path, os.path.exists("/root/.ipython/profile_default/history.sqlite"))`,
    { context: await interpreter().createCodeContext() },
  );
  const names = "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']";
  expect(logs.stdout.join("")).toBe(`${names}\n[]\nFalse jedi 3000\nFalse True False\n`);
});

test("a warm kernel holds no random generator that is not seeded again", async () => {
  const { logs } = await interpreter().runCode(
    `
import gc, random, tempfile
import numpy as np
kinds = (random.Random, tempfile._RandomNameSequence, np.random.Generator, np.random.BitGenerator, np.random.RandomState)
known = {random._inst, np.random.mtrand._rand, np.random.mtrand._rand._bit_generator}
found = [one for one in gc.get_objects() if isinstance(one, kinds) and one not in known]
print([one for one in found if type(one) is not random.SystemRandom])`,
    { context: await interpreter().createCodeContext() },
  );
  expect(logs.stdout).toEqual(["[]\n"]);
});
