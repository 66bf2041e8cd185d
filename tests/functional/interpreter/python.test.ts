/** Python cells through the code interpreter's client: values, streams, errors, variables, folders. */
import { describe, expect, test } from "bun:test";
import { LONG } from "../../../src/base/testing/long.ts";
import { interpreterOfFile, rawLines } from "../../support/interpreter/interpreter-of-file.ts";

const sandbox = interpreterOfFile();

describe("the stream", () => {
  test("is pure ASCII, one JSON object a line, and keeps floats floats", async () => {
    const code = "print('é\\x85\\u2028😀')\n{'é': [1.0, 2, 1e100, 12345678901234567890]}";
    const lines = await rawLines(sandbox(), code);
    for (const line of lines) expect(line).toMatch(/^\{[\x20-\x7e]+\}$/);
    expect(lines[2]).toContain('"json":{"\\u00e9":[1.0,2,1e+100,12345678901234567890]}');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { type: "number_of_executions", execution_count: expect.any(Number) },
      { type: "stdout", text: "é\x85\u2028😀\n", timestamp: expect.stringMatching(/^\d{4}-.*\+00:00$/) },
      expect.objectContaining({ type: "result", is_main_result: true, extra: {} }),
      { type: "end_of_execution" },
    ]);
  });

  test("of an error has name, value and traceback, and ends", async () => {
    const lines = await rawLines(sandbox(), "def broken(:");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { type: "number_of_executions", execution_count: expect.any(Number) },
      { type: "error", name: "SyntaxError", value: expect.any(String), traceback: expect.any(String) },
      { type: "end_of_execution" },
    ]);
  });
});

describe("a cell", () => {
  test("returns its value, prints and errors in separate fields", async () => {
    const reported: string[] = [];
    const { text, logs, results, error } = await sandbox().runCode(
      "import sys\nprint('out')\nprint('more', 'words')\nprint('err', file=sys.stderr)\nx = 41\nx + 1",
      {
        onStdout: ({ line }) => void reported.push(`out ${line}`),
        onStderr: ({ line }) => void reported.push(`err ${line}`),
        onResult: (result) => void reported.push(`result ${result.text}`),
      },
    );
    expect([text, error]).toEqual(["42", undefined]);
    expect(results).toHaveLength(1);
    expect(logs).toEqual({ stdout: ["out\n", "more words\n"], stderr: ["err\n"] });
    expect(reported.toSorted()).toEqual(["err err\n", "out more words\n", "out out\n", "result 42"]);
  });

  test("sees variables of earlier cells", async () => {
    await sandbox().runCode("kept = [1]");
    await sandbox().runCode("kept.append(2)");
    expect((await sandbox().runCode("kept")).text).toBe("[1, 2]");
  });

  test("increases the execution count, also if it fails", async () => {
    const context = await sandbox().createCodeContext();
    const counts: (number | undefined)[] = [];
    for (const code of ["1", "1/0", "(", "2"]) {
      counts.push((await sandbox().runCode(code, { context, envs: { A: "b" } })).executionCount);
    }
    expect(counts).toEqual([1, 2, 3, 4]);
    await sandbox().removeCodeContext(context);
  });

  test.each([
    ["1/0", "ZeroDivisionError", "division by zero"],
    ["nobody", "NameError", "name 'nobody' is not defined"],
    ["input()", "StdinNotImplementedError", expect.any(String)],
  ])("%s fails with %s", async (code, name, value) => {
    const { error } = await sandbox().runCode(code);
    expect(error?.traceback).not.toContain("\x1b");
    expect(error).toMatchObject({ name, value, traceback: expect.stringContaining(name) });
  });

  test("may be indented as a whole, use magics, and end in a string", async () => {
    expect((await sandbox().runCode("    a = 1\n    if a:\n        a = 2\n    a")).text).toBe("2");
    expect((await sandbox().runCode("!echo shell")).logs.stdout.join("")).toBe("shell\r\n");
    expect((await sandbox().runCode("'abc'")).text).toBe("abc");
  });

  // Guards against a cell that ends before the kernel has read its children's output (nearly always).
  test.each([
    ["a program", "import subprocess; _ = subprocess.run(['sh', '-c', FILL])"],
    ["a program, while its own output goes elsewhere", "KEPT, sys.stdout = sys.stdout, io.StringIO(); os.system(FILL)"],
    ["a forked copy", "if os.fork() == 0:\n  for _ in range(60): print('x' * 999)\n  os._exit(0)\n_ = os.wait()"],
    [
      "copies of a pool",
      "import multiprocessing as m\nwith m.get_context('fork').Pool(3) as p: p.map(print, ['x' * 999] * 60)",
    ],
  ])("returns all that %s has printed before it ends", async (_, code) => {
    const begin = "import io, os, sys\nFILL = \"yes $(printf %999s | tr ' ' x) | head -n 60\"";
    await sandbox().runCode(begin);
    for (let time = 0; time < (LONG ? 50 : 3); time++) {
      const { logs, error } = await sandbox().runCode(code);
      expect(error).toBeUndefined();
      expect(logs.stdout.join("").length).toBe(60_000);
      await sandbox().runCode("sys.stdout = globals().get('KEPT', sys.stdout)");
    }
  });

  test("returns output of child processes among its own lines", async () => {
    const code = "import os\nprint('a'); os.system('echo b; echo error >&2'); print('c'); os.system('echo é'); None";
    const { logs } = await sandbox().runCode(code);
    expect(logs.stdout.join("")).toBe("a\nb\nc\né\n");
    expect(logs.stderr.join("")).toBe("error\n");
  });
});

describe("variables and folders", () => {
  test("of one call may come before a cell magic", async () => {
    const { logs } = await sandbox().runCode("%%bash\necho $CALL", { envs: { CALL: "magic" } });
    expect(logs.stdout.join("")).toBe("magic\n");
  });

  test("no names of the server are visible", async () => {
    const context = await sandbox().createCodeContext({ cwd: "/tmp" });
    const code =
      "sorted(n for n in globals() if not n.startswith('_') and n not in ('In', 'Out', 'exit', 'quit', 'open'))";
    expect((await sandbox().runCode(code, { context, envs: { A: "b" } })).text).toBe("['get_ipython']");
    const outside = "import os\n[n for n in os.environ if 'SANDLOT' in n or n in ('PYTHONPATH', 'JPY_PARENT_PID')]";
    expect((await sandbox().runCode(outside, { context })).text).toBe("[]");
    await sandbox().removeCodeContext(context);
  });

  test("a cell runs as root in the user's home", async () => {
    expect((await sandbox().runCode("import os; os.getcwd(), os.getuid()")).text).toBe("('/home/user', 0)");
  });
});
