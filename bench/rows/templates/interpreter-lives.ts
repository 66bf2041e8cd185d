/**
 * Measures code interpreter sandboxes and plain kernels alternately. All rows about the interpreter share these
 * measurements.
 */
import { Sandbox } from "@e2b/code-interpreter";
import { Fault } from "../../../src/contract/fault.ts";
import { codeInterpreter } from "../../../templates/code-interpreter-v1/definition.ts";
import type { Context } from "../../context.ts";
import { summary, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import { runInKernel } from "../../peers/plain-kernel.ts";
import { builtTemplate } from "../../sandboxes/built-in-template.ts";

const SUM = { code: "1+1", value: "2" };
const FRAME = { code: "import pandas; int(pandas.DataFrame({'a': [1, 2]}).a.sum())", value: "3" };
/** Number of warm cells. */
const WARM_CELLS = 5;
/** The first fills caches. */
const WARM_UP_LIVES = 1;
const ROUNDS_MIN = 3;

/** Times in milliseconds. */
export interface Life {
  /** From the create to the value of the first cell. */
  sum: number;
  frame: number;
  /** Time of a further cell. */
  warm: number;
}

export interface SandboxLife extends Life {
  /** The same for a sandbox restored on demand, and the time of that restore alone. */
  restore: number;
  restoredSum: number;
  context: number;
}

interface Lives {
  sandboxes: SandboxLife[];
  kernels: Life[];
}

const led = new WeakMap<Context, Promise<Lives>>();

export async function interpreterLives(context: Context): Promise<Lives | { notMeasured: string }> {
  const template = await builtTemplate(context, codeInterpreter);
  if ("notMeasured" in template) return template;
  const lives = led.get(context) ?? lead(context, template.layers);
  led.set(context, lives);
  return await lives;
}

async function lead(context: Context, layers: readonly string[]): Promise<Lives> {
  const lives: Lives = { sandboxes: [], kernels: [] };
  await using container = await PlainContainer.make(context, layers);
  for (let round = -WARM_UP_LIVES; round < Math.max(ROUNDS_MIN, context.heavyRounds); round++) {
    const [sandbox, kernel] = [await sandboxLife(context), await kernelLife(container)];
    if (round < 0) continue;
    lives.sandboxes.push(sandbox);
    lives.kernels.push(kernel);
  }
  return lives;
}

async function sandboxLife(context: Context): Promise<SandboxLife> {
  const plain = await created(context, SUM);
  const warm = await warmMs(plain.sandbox);
  const newContext = await timed(() => plain.sandbox.createCodeContext());
  await plain.sandbox.kill();
  const frame = await created(context, FRAME);
  await frame.sandbox.kill();
  // A sandbox without internet access never comes from the ready pool.
  const anew = await created(context, SUM, { allowInternetAccess: false });
  await anew.sandbox.kill();
  return {
    sum: plain.createMs + plain.firstMs,
    frame: frame.createMs + frame.firstMs,
    warm,
    context: newContext,
    restore: anew.createMs,
    restoredSum: anew.createMs + anew.firstMs,
  };
}

async function kernelLife(container: PlainContainer): Promise<Life> {
  const { firstMs, nextMs } = await runInKernel(container, SUM, Array<string>(WARM_CELLS).fill(SUM.code));
  const frame = await runInKernel(container, FRAME);
  return { sum: firstMs, frame: frame.firstMs, warm: summary(nextMs).median };
}

async function created(context: Context, cell: typeof SUM, options: { allowInternetAccess?: boolean } = {}) {
  await context.untilReady();
  let sandbox: Sandbox | undefined;
  const createMs = await timed(async () => {
    sandbox = await Sandbox.create({ ...context.sdk, ...options });
  });
  if (sandbox === undefined) throw new Fault(500, "no sandbox was created");
  const firstMs = await runMs(sandbox, cell);
  return { sandbox, createMs, firstMs };
}

async function runMs(sandbox: Sandbox, { code, value }: typeof SUM): Promise<number> {
  return await timed(async () => {
    const { text, error } = await sandbox.runCode(code);
    if (text !== value) throw new Fault(500, `${code} was answered with ${text}: ${error?.name} ${error?.value}`);
  });
}

async function warmMs(sandbox: Sandbox): Promise<number> {
  const times: number[] = [];
  for (let cell = 0; cell < WARM_CELLS; cell++) times.push(await runMs(sandbox, SUM));
  return summary(times).median;
}
