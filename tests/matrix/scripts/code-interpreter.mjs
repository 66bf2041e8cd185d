import { Sandbox } from "@e2b/code-interpreter";
import { equal, runFeatures } from "./features.mjs";

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
    equal((await sandbox.runCode("import os; os.getcwd()", { context })).text, "/tmp");
  },
  languages: async () => {
    equal((await sandbox.runCode("1 + 2", { language: "js" })).text, "3");
    equal((await sandbox.runCode("echo shell", { language: "bash" })).logs.stdout.join("").trim(), "shell");
  },
  "pause and connect": async () => {
    await (sandbox.pause ?? sandbox.betaPause).call(sandbox);
    sandbox = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 900_000 });
    equal((await sandbox.runCode("x")).text, "20");
  },
  kill: async () => equal(await sandbox.kill(), true),
});
