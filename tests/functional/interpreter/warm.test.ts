/** Kernels start ahead of demand: neither the first code of a sandbox nor a new context waits for one. */
import { expect } from "bun:test";
import { Sandbox } from "@e2b/code-interpreter";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { interpreterOfFile, leave } from "../../support/interpreter/interpreter-of-file.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("code-interpreter-v1");
const sandbox = interpreterOfFile();
const ROUNDS = LONG ? 5 : 3;

async function took(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

timed("the first code of a sandbox, and a new context, take little more than any code", async () => {
  const first: number[] = [];
  const contexts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const options = Object.assign({ timeoutMs: 120_000 }, server().options);
    let restored: Sandbox | undefined;
    const restore = await took(async () => {
      restored = await Sandbox.create(options);
    });
    if (restored === undefined) throw new Error("there is no sandbox");
    const made = restored;
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
});

timed("a context that is restarted again and again does not wait for Python to load its packages", async () => {
  const packages = "ipykernel.kernelapp, ipykernel.debugger, matplotlib.pyplot, pandas";
  const load = () => took(() => sandbox().commands.run(`python3 -c 'import ${packages}'`));
  const loads = [await load(), await load(), await load()];
  const context = await sandbox().createCodeContext();
  const restarts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    restarts.push(await took(() => sandbox().restartCodeContext(context)));
  }
  await sandbox().removeCodeContext(context);
  expect(median(restarts) / median(loads)).toBeLessThan(0.7);
});

const LEFT_MS = 5_000;
const ANSWERED_WITHIN_MS = 10_000;
/** Endless code in each language, and code that prints the same text in that language. */
const ENDLESS = [
  ["python", "print('runs')\nimport time\ntime.sleep(600)", "print(2)"],
  ["python", "print('runs')\nwhile True:\n try:\n  while True: pass\n except BaseException: pass", "print(2)"],
  ["javascript", "console.log('runs'); await new Promise((go) => setTimeout(go, 50)); for (;;);", "console.log(2)"],
  ["bash", "trap '' INT; echo runs; while :; do sleep 1; done", "echo 2"],
] as const;

timed("five seconds after its client disconnects, a context runs other code within ten", async () => {
  const all = await Promise.all(
    ENDLESS.map(async ([language, endless, code]) => {
      const context = await sandbox().createCodeContext({ language, requestTimeoutMs: 120_000 });
      await leave(sandbox(), endless, context.id);
      return { context, code, leftMs: performance.now() };
    }),
  );
  const outcomes = await Promise.all(
    all.map(async ({ context, code, leftMs }) => {
      await Bun.sleep(leftMs + LEFT_MS - performance.now());
      let printed = "";
      const ms = await took(async () => {
        printed = (await sandbox().runCode(code, { context, timeoutMs: 60_000 })).logs.stdout.join("");
      });
      await sandbox().removeCodeContext(context);
      return { printed, isInTime: ms < ANSWERED_WITHIN_MS };
    }),
  );
  expect(outcomes).toEqual(ENDLESS.map(() => ({ printed: "2\n", isInTime: true })));
});
