/** Output of Python cells besides their value: lines, pictures, MIME types, and objects that resist display. */
import { expect, test } from "bun:test";
import type { Execution } from "@e2b/code-interpreter";
import { interpreterOfFile, rawLines } from "../../support/interpreter/interpreter-of-file.ts";

const interpreter = interpreterOfFile();

test("each print is one line of output, whatever it contains", async () => {
  const { logs } = await run(`
import sys
print("a"); print("b", 1); print("two\\nlines"); print("with its own\\n"); print()
print("x", end=""); print("y")
sys.stdout.write("written\\n")
print("\\ud83d half a character")
print("error", file=sys.stderr)`);
  expect(logs.stdout).toEqual([
    "a\n",
    "b 1\n",
    "two\nlines\n",
    "with its own\n\n",
    "\n",
    "xy\n",
    "written\n",
    "\ud83d half a character\n",
  ]);
  expect(logs.stderr).toEqual(["error\n"]);
});

test("prints stay separate after a flush of ipykernel's own stream", async () => {
  const { logs } = await run(`
import sys
from ipykernel.iostream import OutStream
print("before", file=sys.stderr)
OutStream._flush(sys.stderr)
print("error", file=sys.stderr)`);
  expect(logs.stderr).toEqual(["before\n", "error\n"]);
});

test("prints stay separate at any rate, and from a child process", async () => {
  const { logs } = await run(`
import os
for i in range(50_000): print(i)
if os.fork() == 0:
    print("child", 1); os._exit(0)
os.wait()`);
  const numbers = logs.stdout.filter((line) => !line.startsWith("child"));
  expect(numbers.length).toBe(50_000);
  expect(numbers.findIndex((line, at) => line !== `${at}\n`)).toBe(-1);
  expect(logs.stdout).toContain("child 1\n");
});

// Guards against two checks of the text with a stall between them, of which the second comes late enough.
test("prints stay separate if the kernel stands still after a look at an unfinished one", async () => {
  const { logs } = await run(`
from sandlot_kernel.output import LOOKS, Prints
prints = Prints()
prints.write("a")
early = [prints.take(LOOKS) for _ in range(LOOKS - 1)]
prints.write("\\n")
whole = prints.take(LOOKS)
prints.write("b")
print(early, whole, [prints.take(LOOKS) for _ in range(LOOKS)])`);
  expect(logs.stdout).toEqual(["[[], [], [], []] ['a\\n'] [[], [], [], [], ['b']]\n"]);
});

// Guards against a clock by which the text has waited for its newline long enough.
test("prints stay separate if the kernel stalls between a text and its newline", async () => {
  const { logs } = await run(`
import ctypes, sys
for i in range(5):
    print("next", flush=True)
    sys.stdout.write(str(i)); ctypes.PyDLL(None).usleep(500_000); sys.stdout.write("\\n")`);
  expect(logs.stdout).toEqual(Array.from({ length: 5 }, (_, at) => ["next\n", `${at}\n`]).flat());
});

test("output without a newline arrives at once", async () => {
  const seen = "/tmp/seen";
  const parts: string[] = [];
  const code = `
import os, time
print("begun", end="")
while not os.path.exists("${seen}"): time.sleep(0.05)
print(" and done")`;
  const writing: Promise<unknown>[] = [];
  await interpreter().runCode(code, {
    onStdout: ({ line }) => {
      parts.push(line);
      writing.push(interpreter().files.write(seen, ""));
    },
  });
  await Promise.all(writing);
  expect(parts).toEqual(["begun", " and done\n"]);
});

test("an image is displayed when it is saved to a path, when it is shown, and as a value", async () => {
  const { results } = await run(`
import io, pathlib
from PIL import Image
image = Image.new("RGB", (3, 2), "red")
image.save("red.png")
image.save(pathlib.Path("red.jpg"))
image.save(io.BytesIO(), "png")
with open("red2.png", "wb") as file: image.save(file, "png")
image.show()
Image.new("RGBA", (3, 2)).show()
image`);
  expect(results.map(({ png, jpeg, isMainResult }) => [isPng(png), jpeg !== undefined, isMainResult])).toEqual([
    [true, true, false],
    [true, true, false],
    [true, true, false],
    [true, false, false],
    [true, true, true],
  ]);
  expect(results[0]?.text).toBe("<PIL.Image.Image image mode=RGB size=3x2>");
});

test("an image that cannot be saved is an error, and nothing is displayed", async () => {
  const { results, error } = await interpreter().runCode("image.save('/nowhere/red.png')");
  expect([results, error?.name]).toEqual([[], "FileNotFoundError"]);
});

test("a figure that is saved to a path is displayed, too", async () => {
  const { results } = await run(`
import io
import matplotlib.pyplot as plt
plt.plot([1, 2, 4]); plt.savefig("plot.png"); plt.savefig(io.BytesIO()); plt.savefig("plot.pdf"); plt.close()`);
  expect(results.map(({ png, chart }) => [isPng(png), chart])).toEqual([[true, undefined]]);
});

test("pictures have Japanese characters", async () => {
  const { results } = await run(`
import matplotlib.pyplot as plt
plt.plot([1, 2, 4]); plt.title("日本語"); plt.show()
plt.rcParams["font.family"]`);
  expect(results.map(({ png, text }) => png !== undefined || text)).toEqual([
    true,
    "['sans-serif', 'Noto Sans CJK JP']",
  ]);
});

test("a figure of plotly is HTML, and its own data", async () => {
  const lines = await rawLines(interpreter(), "import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[1.0, 2]))");
  const last = lines.findLast((line) => line.startsWith('{"type":"result"'));
  const result = JSON.parse(last ?? "{}") as { html?: string; extra: Record<string, { data: unknown }> };
  expect(result.html).toContain("plotly");
  expect(result.extra["application/vnd.plotly.v1+json"]?.data).toMatchObject([{ y: [1, 2], type: "bar" }]);
});

test("every MIME type has its member, and others are extra", async () => {
  const shown = { "text/html": "<b>", "text/markdown": "*m*", "image/svg+xml": "<svg/>", "text/latex": "$x$" };
  const bundle = { ...shown, "application/pdf": "cGRm", "application/javascript": "1", "application/x-own": { a: 1 } };
  const code = `from IPython.display import display\ndisplay(${JSON.stringify(bundle)}, raw=True)`;
  const lines = await rawLines(interpreter(), code);
  expect(JSON.parse(lines.find((line) => line.startsWith('{"type":"result"')) ?? "{}")).toEqual({
    type: "result",
    is_main_result: false,
    extra: { "application/x-own": { a: 1 } },
    html: "<b>",
    markdown: "*m*",
    svg: "<svg/>",
    latex: "$x$",
    pdf: "cGRm",
    javascript: "1",
  });
  const { results } = await run('display({"text/latex": "$y$"}, raw=True)');
  expect(results.map((result) => [result.formats(), result.text])).toEqual([[["latex"], undefined]]);
});

test("displayed data becomes standard JSON", async () => {
  const { results } = await run('display({"application/json": {1: float("nan"), "s": {2}}}, raw=True)');
  expect(results[0]?.json as unknown).toEqual({ 1: null, s: [2] });
});

const RESISTING: readonly [object: string, body: string, text: string | undefined, error: string | undefined][] = [
  ["whose HTML raises", "def _repr_html_(self): raise ValueError('no')", "<__main__.Odd", "ValueError"],
  ["whose bundle raises", "def _repr_mimebundle_(self, **_): raise ValueError('no')", "<__main__.Odd", "ValueError"],
  ["whose text raises", "def __repr__(self): raise ValueError('no')", undefined, "ValueError"],
  ["whose HTML is a number", "def _repr_html_(self): return 1", "<__main__.Odd", undefined],
  [
    "that claims another class",
    "__class__ = property(lambda self: __import__('pandas').DataFrame)\n  def __repr__(self): return 'odd'",
    "odd",
    undefined,
  ],
  [
    "that has every attribute",
    "def __getattr__(self, name): return lambda *_, **__: 1\n  def __repr__(self): return 'odd'",
    "odd",
    undefined,
  ],
];

test.each(RESISTING)("an object %s returns a result or an error", async (_object, body, text, error) => {
  const got = await interpreter().runCode(`class Odd:\n  ${body}\nOdd()`);
  expect(got.error?.name).toBe(error);
  if (text === undefined) expect(got.results).toEqual([]);
  else expect(got.text).toStartWith(text);
  expect((await interpreter().runCode("1 + 1")).text).toBe("2");
});

test("an infinitely nested list is an error, and the kernel continues", async () => {
  const { error } = await interpreter().runCode("deep = []\nfor _ in range(100_000): deep = [deep]\ndeep");
  expect(error?.name).toBe("RecursionError");
  expect((await interpreter().runCode("len(deep)")).text).toBe("1");
});

async function run(code: string): Promise<Execution> {
  const execution = await interpreter().runCode(code);
  expect(execution.error).toBeUndefined();
  return execution;
}

function isPng(base64: string | undefined): boolean {
  return (
    Buffer.from(base64 ?? "", "base64")
      .subarray(1, 4)
      .toString() === "PNG"
  );
}
