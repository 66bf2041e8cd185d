/** Formats errors of cells without stack frames of the runner and of Node. */
import { inspect } from "node:util";
import { say } from "./messages.ts";

const FRAME_OF_NODE = /^\s+at .*(?:\(|at |async )node:/;

/** Cuts stacks where the runner, or Node on its behalf, calls the cell. */
export function hideOwnFrames(): void {
  Error.prepareStackTrace = (error, frames) => {
    const own = frames.findIndex((frame) => frame.getFileName() === import.meta.url);
    let end = own === -1 ? frames.length : own;
    while (own !== -1 && end > 0 && frames[end - 1]?.getFileName()?.startsWith("node:vm") === true) end--;
    return [headOf(error), ...frames.slice(0, end).map((frame) => `    at ${frame}`)].join("\n");
  };
}

function headOf(error: unknown): string {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return "Error";
  }
}

export class Interrupted extends Error {
  override readonly name = "Interrupted";
  constructor() {
    super("the cell was interrupted");
  }
}

export function sayError(thrown: unknown): void {
  say(Object.assign({ kind: "error" }, describe(thrown)));
}

/** Text for stderr about an error that no cell waits for. */
export function uncaughtText(thrown: unknown): string {
  return `Uncaught ${describe(thrown).traceback}\n`;
}

function describe(given: unknown): { name: string; value: string; traceback: string } {
  try {
    const thrown = interruptedOr(given);
    if (!isErrorLike(thrown)) {
      const value = typeof thrown === "string" ? thrown : inspect(thrown);
      return { name: "Error", value, traceback: `Uncaught ${inspect(thrown)}` };
    }
    const traceback = thrown instanceof Interrupted ? String(thrown) : userFrames(inspect(thrown));
    return { name: String(thrown.name), value: String(thrown.message), traceback };
  } catch {
    // Even inspecting the value throws.
    return { name: "Error", value: "the value that was thrown cannot be shown", traceback: "Error" };
  }
}

function isErrorLike(thrown: unknown): thrown is Error {
  if (thrown instanceof Error) return true;
  if (typeof thrown !== "object" || thrown === null) return false;
  const { name, message } = thrown as Partial<Error>;
  return typeof name === "string" && typeof message === "string";
}

function interruptedOr(thrown: unknown): unknown {
  const code = (thrown as { code?: unknown } | null | undefined)?.code;
  return code === "ERR_SCRIPT_EXECUTION_INTERRUPTED" ? new Interrupted() : thrown;
}

function userFrames(stack: string): string {
  const kept: string[] = [];
  for (const line of stack.split("\n")) {
    if (!FRAME_OF_NODE.test(line)) kept.push(line);
    // The error's own members begin here.
    else if (line.endsWith(" {")) kept.push(`${kept.pop() ?? ""} {`);
  }
  return kept.join("\n");
}
