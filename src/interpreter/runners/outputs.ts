/** Converts runner messages to outputs. Invalid messages are dropped: a cell may have written them. */
import type { KernelOutput } from "../kernel.ts";
import type { RunnerMessage } from "./runner.ts";

const INTERRUPTED: KernelOutput = {
  kind: "error",
  name: "Interrupted",
  value: "the cell was interrupted",
  traceback: "Interrupted: the cell was interrupted",
};

/**
 * Reports the error of an interrupted cell as `Interrupted`. The signal also ends programs that the cell waits for, so
 * the cell may fail with their error before its runner notices the interrupt.
 */
export function interruptible(
  onOutput: (output: KernelOutput) => void,
  isInterrupted: () => boolean,
): (output: KernelOutput) => void {
  return (output) => onOutput(output.kind === "error" && isInterrupted() ? INTERRUPTED : output);
}

export function emitOutput(message: RunnerMessage, onOutput: (output: KernelOutput) => void): void {
  const { kind, text, isMain, bundle, name, value, traceback } = message;
  if ((kind === "stdout" || kind === "stderr") && typeof text === "string") onOutput({ kind, text });
  else if (kind === "result" && typeof isMain === "boolean" && isBundle(bundle)) onOutput({ kind, isMain, bundle });
  else if (kind === "error" && typeof name === "string" && typeof value === "string" && typeof traceback === "string") {
    onOutput({ kind, name, value, traceback });
  }
}

/** Whether it maps MIME types to JSON texts. */
function isBundle(bundle: unknown): bundle is Record<string, string> {
  if (typeof bundle !== "object" || bundle === null || Array.isArray(bundle)) return false;
  return Object.values(bundle).every((json) => typeof json === "string" && isJson(json));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
