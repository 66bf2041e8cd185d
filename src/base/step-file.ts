/** Writes recorded steps to a file, one JSON object per line. */
import { appendFileSync } from "node:fs";
import { described, stderrLog } from "./log.ts";
import { recordSteps, type Step } from "./steps.ts";

interface StepFileBounds {
  /** Writes are delayed, because writing takes time as well. */
  writeEveryMs: number;
  /** Recording ends at this size. */
  maxBytes: number;
}

/** Returns the function that takes the steps. */
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
      stderrLog.write({ level: "warn", event: "steps are no longer recorded: their file is full", file });
    } catch (error) {
      stderrLog.write({ level: "error", event: "steps could not be recorded", file, error: described(error) });
    }
    recordSteps(undefined);
  };
  return (each) => {
    if (waiting.push(each) === 1) setTimeout(write, writeEveryMs).unref();
  };
}
