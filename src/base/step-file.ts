/** Steps in a file, one JSON object a line. */
import { appendFileSync } from "node:fs";
import { described, stderrLog } from "./log.ts";
import { recordSteps, type Step } from "./steps.ts";

interface StepFileBounds {
  /** Not at once, because writing takes time as well. */
  writeEveryMs: number;
  /** No more is recorded then. */
  maxBytes: number;
}

/** Takes steps for the file. */
export function stepsInto(file: string, { writeEveryMs, maxBytes }: StepFileBounds): (step: Step) => void {
  let waiting: Step[] = [];
  let left = maxBytes;
  const write = () => {
    const lines = waiting.map((each) => `${JSON.stringify(each)}\n`).join("");
    waiting = [];
    left -= lines.length;
    try {
      appendFileSync(file, lines, { mode: 0o600 });
      if (left > 0) return;
      stderrLog.write({ level: "warn", event: "no more steps are recorded: their file has become too large", file });
    } catch (error) {
      stderrLog.write({ level: "error", event: "steps could not be recorded", file, error: described(error) });
    }
    recordSteps(undefined);
  };
  return (each) => {
    if (waiting.push(each) === 1) setTimeout(write, writeEveryMs).unref();
  };
}
