/** Kernels run before anybody asks: neither the first code of a sandbox nor a new context waits for one to start. */
import { expect } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { timed } from "../../../src/work/testing/timed.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");
const ROUNDS = 5;

async function took(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

timed(
  "the first code of a sandbox, and a new context, take little more than any code",
  async () => {
    const first: number[] = [];
    const contexts: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const options = Object.assign({ timeoutMs: 120_000 }, server().options);
      let sandbox: Sandbox | undefined;
      const restore = await took(async () => {
        sandbox = await Sandbox.create(options);
      });
      if (sandbox === undefined) throw new Error("there is no sandbox");
      const made = sandbox;
      const run = () => took(() => made.runCode("1 + 1"));
      const begin = restore + (await run());
      const warm = median([await run(), await run(), await run(), await run(), await run()]);
      const context = await took(() => made.createCodeContext());
      await made.kill();
      first.push(begin / (restore + warm));
      contexts.push(context / warm);
    }
    expect(median(first)).toBeLessThan(1.3);
    expect(median(contexts)).toBeLessThan(3);
  },
  120_000,
);
