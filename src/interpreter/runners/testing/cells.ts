/** Runs cells in a test's kernel and returns their output. */
import { INTERRUPT_AGAIN_MS } from "../../context.ts";
import type { Kernel, KernelOutput } from "../../kernel.ts";

interface CellSaid {
  stdout: string[];
  stderr: string[];
  /** Values of the results, as text. */
  results: string[];
  bundles: Record<string, unknown>[];
  error: { name: string; value: string; traceback: string } | undefined;
  count: number | undefined;
}

export async function run(kernel: Kernel, code: string): Promise<CellSaid> {
  const outputs: CellSaid = { stdout: [], stderr: [], results: [], bundles: [], error: undefined, count: undefined };
  await kernel.execute(code, (output) => note(outputs, output));
  return outputs;
}

/** Interrupts as soon as the cell has said something, and again like the server when that was not heard. */
export async function runInterrupted(kernel: Kernel, code: string): Promise<CellSaid> {
  const outputs: CellSaid = { stdout: [], stderr: [], results: [], bundles: [], error: undefined, count: undefined };
  let again: ReturnType<typeof setInterval> | undefined;
  await kernel.execute(code, (output) => {
    note(outputs, output);
    if (output.kind !== "stdout") return;
    kernel.interrupt();
    again ??= setInterval(() => kernel.interrupt(), INTERRUPT_AGAIN_MS[0]);
  });
  clearInterval(again);
  return outputs;
}

function note(outputs: CellSaid, output: KernelOutput): void {
  switch (output.kind) {
    case "count":
      outputs.count = output.count;
      break;
    case "stdout":
    case "stderr":
      outputs[output.kind].push(output.text);
      break;
    case "error": {
      const { name, value, traceback } = output;
      outputs.error = { name, value, traceback };
      break;
    }
    case "result": {
      const bundle = Object.fromEntries(Object.entries(output.bundle).map(([type, json]) => [type, JSON.parse(json)]));
      outputs.bundles.push(bundle);
      outputs.results.push(String(bundle["text/plain"]));
    }
  }
}
