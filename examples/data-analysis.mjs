// An agent's loop over data, with a script in the place of the model: it sees what came of each cell, and answers.
import { writeFile } from "node:fs/promises";
import { Sandbox } from "@e2b/code-interpreter";

const SALES = "day,shop,cups\n1,north,40\n1,south,31\n2,north,44\n2,south,\n3,north,51\n3,south,38\n";

/** What a model would write next, given the outcome of the cell before. Undefined: it is content. */
function* model() {
  let seen = yield "import pandas as pd\nsales = pd.read_csv('/home/user/sales.csv')\nsales.cups.astype(int).sum()";
  // A value is missing, which pandas does not take for a whole number.
  if (seen.error) seen = yield "sales = sales.dropna()\nint(sales.cups.astype(int).sum())";
  console.log(`cups in all: ${seen.text}`);
  seen = yield "sales.groupby('shop').cups.mean()";
  console.log(seen.text);
  seen = yield [
    "import matplotlib.pyplot as plt",
    "for shop, days in sales.groupby('shop'): plt.plot(days.day, days.cups, label=shop)",
    "plt.xlabel('day'); plt.ylabel('cups'); plt.legend(); plt.show()",
  ].join("\n");
  return seen;
}

const sandbox = await Sandbox.create();
try {
  await sandbox.files.write("/home/user/sales.csv", SALES);
  const script = model();
  let turn = script.next();
  while (!turn.done) {
    const execution = await sandbox.runCode(turn.value);
    console.log(`cell ${execution.executionCount}: ${execution.error ? execution.error.name : "done"}`);
    turn = script.next(execution);
  }
  const [picture] = turn.value.results;
  // The chart is data as well as a picture.
  console.log(`chart: ${picture.chart.type} of ${picture.chart.elements.map(({ label }) => label).join(", ")}`);
  if (process.argv[2]) await writeFile(process.argv[2], picture.png, "base64");
} finally {
  await sandbox.kill();
}
