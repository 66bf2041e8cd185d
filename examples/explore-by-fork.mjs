// Ten continuations of one notebook: what was computed once is in the memory of each copy.
import { Sandbox } from "@e2b/code-interpreter";

const notebook = await Sandbox.create();
const copies = [];
try {
  await notebook.runCode(
    [
      "import numpy as np",
      "rng = np.random.default_rng(7)",
      "x = np.linspace(-1, 1, 200)",
      "y = np.sin(3 * x) + rng.normal(0, 0.1, x.size)",
      "train, test = np.arange(200) % 2 == 0, np.arange(200) % 2 == 1",
    ].join("\n"),
  );

  // Without timeoutMs, a copy ends after 15 seconds.
  const forks = await notebook.fork({ count: 10, timeoutMs: 300_000 });
  copies.push(...forks.filter((fork) => !(fork instanceof Error)));

  // Each tries something else with the same variables, all at once.
  const tried = await Promise.all(
    copies.map(async (copy, degree) => {
      const fit = `fit = np.polyfit(x[train], y[train], ${degree})`;
      const { text } = await copy.runCode(`${fit}\nfloat(np.mean((np.polyval(fit, x[test]) - y[test]) ** 2))`);
      return { copy, degree, error: Number(text) };
    }),
  );
  for (const { degree, error } of tried) console.log(`degree ${degree}: ${error.toFixed(4)}`);

  // The one that did best goes on; what it has tried is in its memory and nowhere else.
  const best = tried.reduce((least, each) => (each.error < least.error ? each : least));
  const { text } = await best.copy.runCode("len(fit) - 1");
  console.log(`best: degree ${text}; the notebook itself: ${(await notebook.runCode("'fit' in globals()")).text}`);
} finally {
  await Promise.all([notebook, ...copies].map((sandbox) => sandbox.kill()));
}
