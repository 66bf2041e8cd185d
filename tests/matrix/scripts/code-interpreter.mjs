import { Sandbox } from "@e2b/code-interpreter";
import { equal, orAbsent, runFeatures } from "./features.mjs";

const CHART = "import matplotlib.pyplot as plt; plt.bar(['a', 'b'], [1, 2]); plt.show()";
let sandbox;

await runFeatures({
  create: async () => {
    sandbox = await Sandbox.create({ timeoutMs: 900_000 });
  },
  cells: async () => {
    await sandbox.runCode("x = 20");
    equal((await sandbox.runCode("x * 2 + 2")).text, "42");
  },
  output: async () => {
    const lines = [];
    const { logs } = await sandbox.runCode("print('one')\nprint('two')", {
      onStdout: ({ line }) => void lines.push(line),
    });
    equal([lines.join(""), logs.stdout.join("")], ["one\ntwo\n", "one\ntwo\n"]);
  },
  "other callbacks": async () => {
    const seen = [];
    const code = "import sys; print('low', file=sys.stderr)\ndisplay('shown')\nraise ValueError('bad')";
    await sandbox.runCode(code, {
      onStderr: ({ line }) => void seen.push(line.trim()),
      onResult: ({ text }) => void seen.push(text),
      onError: ({ name }) => void seen.push(name),
    });
    equal(seen.sort(), ["ValueError", "low", "shown"]);
  },
  "streamed output": async () => {
    // The cell ends only once the client has its first line.
    let release;
    const run = sandbox.runCode(
      "import os, time\nprint('first')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)",
      {
        onStdout: () => {
          release ??= sandbox.files.write("/tmp/go", "");
        },
      },
    );
    equal((await run).logs.stdout.join(""), "first\n");
    await release;
  },
  "variables of a cell": async () => {
    const code = "import os; os.environ.get('MATRIX')";
    equal((await sandbox.runCode(code, { envs: { MATRIX: "one" } })).text, "one");
    equal((await sandbox.runCode(code)).text, undefined);
  },
  errors: async () => {
    const { error } = await sandbox.runCode("1 / 0");
    equal([error.name, error.value], ["ZeroDivisionError", "division by zero"]);
  },
  tables: async () => {
    const { results } = await sandbox.runCode("import pandas as pd; pd.DataFrame({'a': [1, 2]})");
    equal(results[0].html.includes("<table"), true);
  },
  charts: async () => {
    const { results } = await sandbox.runCode(CHART);
    equal([results[0].png.startsWith("iVBORw0KGgo"), results[0].chart?.type], [true, "bar"]);
  },
  contexts: async () => {
    const context = await sandbox.createCodeContext({ cwd: "/tmp" });
    equal((await sandbox.runCode("import os; y = 1; os.getcwd()", { context })).text, "/tmp");
    orAbsent(sandbox.listCodeContexts);
    const listed = async () => (await sandbox.listCodeContexts()).some(({ id }) => id === context.id);
    equal(await listed(), true);
    await sandbox.restartCodeContext(context);
    equal((await sandbox.runCode("'y' in globals()", { context })).text, "False");
    await sandbox.removeCodeContext(context);
    equal(await listed(), false);
  },
  languages: async () => {
    equal((await sandbox.runCode("1 + 2", { language: "js" })).text, "3");
    equal((await sandbox.runCode("const n: number = 2; n + 2", { language: "ts" })).text, "4");
    equal((await sandbox.runCode("echo shell", { language: "bash" })).logs.stdout.join("").trim(), "shell");
  },
  R: async () => equal((await sandbox.runCode("1 + 1", { language: "r" })).results[0]?.text, "[1] 2"),
  Java: async () => equal((await sandbox.runCode("int x = 2;\nx + 1", { language: "java" })).text, "3"),
  "pause and connect": async () => {
    await (sandbox.pause ?? sandbox.betaPause).call(sandbox);
    sandbox = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 900_000 });
    equal((await sandbox.runCode("x")).text, "20");
  },
  kill: async () => equal(await sandbox.kill(), true),
});
