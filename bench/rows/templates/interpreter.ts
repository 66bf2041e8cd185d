/** Latencies of the code interpreter, beside a plainly started kernel, and the memory of a sandbox. */
import { Sandbox } from "@e2b/code-interpreter";
import { codeInterpreter } from "../../../templates/code-interpreter-v1/definition.ts";
import type { Context } from "../../context.ts";
import { summary } from "../../figures/samples.ts";
import type { Outcome, Row } from "../../row.ts";
import { memoryOf } from "../../sandboxes/bench-sandbox.ts";
import { builtTemplate } from "../../sandboxes/built-in-template.ts";
import { interpreterLives, type Life, type SandboxLife } from "./interpreter-lives.ts";

const PEER = "ipykernel through jupyter_client, in a bare crun container of the same image";
const SANDBOXES = 20;
const LIFE_MS = 600_000;
/** Maximum time of the first cell, relative to a restore and a warm cell. */
const FIRST_MAX = 1.3;

export const INTERPRETER_ROWS: readonly Row[] = [
  rowOf("interpreter-first", "sum", 'create → first runCode("1+1") of the code interpreter', firstCellNotes),
  rowOf("interpreter-pandas", "frame", "create → first runCode that imports pandas and makes a data frame"),
  rowOf("run-code", "warm", 'runCode("1+1") round trip in a context that has run cells'),
  {
    name: "interpreter-context",
    what: "a new Python context",
    beside: {
      peer: 'runCode("1+1") round trip in the same sandbox',
      ratio: "cost",
      bounds: { atLeast: 3, aim: 1.5 },
    },
    async run(context) {
      const lives = await interpreterLives(context);
      if ("notMeasured" in lives) return lives;
      const { sandboxes } = lives;
      return { pairs: { ours: sandboxes.map((life) => life.context), peer: sandboxes.map(({ warm }) => warm) } };
    },
  },
  {
    name: "interpreter-memory-20",
    what: "memory of the 2nd to the 20th idle sandbox of the code interpreter",
    run: idleMemory,
  },
];

function rowOf(
  name: string,
  moment: keyof Life,
  what: string,
  more: (lives: readonly SandboxLife[]) => { notes: string[]; broken: string[] } = () => ({ notes: [], broken: [] }),
): Row {
  return {
    name,
    what,
    beside: { peer: PEER, ratio: "cost" },
    async run(context) {
      const lives = await interpreterLives(context);
      if ("notMeasured" in lives) return lives;
      const { sandboxes, kernels } = lives;
      const pairs = { ours: sandboxes.map((life) => life[moment]), peer: kernels.map((life) => life[moment]) };
      return { pairs, ...more(sandboxes) };
    },
  };
}

function firstCellNotes(lives: readonly SandboxLife[]): { notes: string[]; broken: string[] } {
  const [first, restore, warm] = [median(lives, "restoredSum"), median(lives, "restore"), median(lives, "warm")];
  const ratio = first / (restore + warm);
  const parts = `restore ${restore.toFixed(0)} ms and one round trip ${warm.toFixed(0)} ms`;
  const text = `restored when asked for: ${first.toFixed(0)} ms, ${ratio.toFixed(2)} × ${parts}`;
  return { notes: [text], broken: ratio > FIRST_MAX ? [`${text}, more than ${FIRST_MAX} ×`] : [] };
}

function median(lives: readonly SandboxLife[], moment: keyof SandboxLife): number {
  return summary(lives.map((life) => life[moment])).median;
}

async function idleMemory(context: Context): Promise<Outcome> {
  const template = await builtTemplate(context, codeInterpreter);
  if ("notMeasured" in template) return template;
  const sandboxes: Sandbox[] = [];
  try {
    while (sandboxes.length < SANDBOXES) {
      await context.untilReady();
      sandboxes.push(await Sandbox.create({ ...context.sdk, timeoutMs: LIFE_MS }));
    }
    const [first = 0, ...others] = sandboxes.map(({ sandboxId }) => memoryOf(context, sandboxId));
    const { median: usual, p10, p90 } = summary(others);
    return {
      notes: [`${usual.toFixed(1)} MiB [${p10.toFixed(1)}–${p90.toFixed(1)}]; the first ${first.toFixed(1)} MiB`],
    };
  } finally {
    await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
    await context.untilReady();
  }
}
