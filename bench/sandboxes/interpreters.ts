/** Code interpreter sandboxes that have run pandas. */
import { Sandbox } from "@e2b/code-interpreter";
import { Fault } from "../../src/contract/fault.ts";
import { codeInterpreter } from "../../templates/code-interpreter-v1/definition.ts";
import type { Context } from "../context.ts";
import { timed } from "../figures/samples.ts";
import { builtTemplate } from "./built-in-template.ts";

const FRAME = { code: "import pandas; int(pandas.DataFrame({'a': [1, 2]}).a.sum())", value: "3" };
const LIFE_MS = 3_600_000;

export class Interpreters implements AsyncDisposable {
  readonly all: Sandbox[] = [];

  private constructor(readonly context: Context) {}

  /** None are made yet. For a server without ready sandboxes. */
  static async on(context: Context): Promise<Interpreters | { notMeasured: string }> {
    const template = await builtTemplate(context, codeInterpreter);
    if ("notMeasured" in template) return template;
    context.keptReady = 0;
    return new Interpreters(context);
  }

  get ids(): string[] {
    return this.all.map(({ sandboxId }) => sandboxId);
  }

  /** `before` is awaited before each is made. */
  async grow(count: number, before: () => Promise<void> = async () => undefined): Promise<void> {
    while (this.all.length < count) {
      await before();
      const sandbox = await Sandbox.create({ ...this.context.sdk, timeoutMs: LIFE_MS });
      this.all.push(sandbox);
      await runFrame(sandbox);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((sandbox) => sandbox.kill()));
  }
}

/** Time of a cell that uses pandas. */
export async function frameMs(sandbox: Sandbox): Promise<number> {
  return await timed(() => runFrame(sandbox));
}

async function runFrame(sandbox: Sandbox): Promise<void> {
  const { text, error } = await sandbox.runCode(FRAME.code);
  if (text !== FRAME.value) throw new Fault(500, `pandas was answered with ${text}: ${error?.name} ${error?.value}`);
}
