/**
 * The summary of a run: failures, slowest files, duration, and on the last line the numbers of passed and failed tests.
 */
import type { Outcome } from "./bun-test.ts";

const SLOWEST_SHOWN = 25;

export function printSummary(outcomes: readonly Outcome[], tookMs: number): void {
  const files = outcomes.flatMap(({ fileMs }) => Object.entries(fileMs)).sort(([, a], [, b]) => b - a);
  const sum = (key: "passed" | "failed") => outcomes.reduce((total, outcome) => total + outcome[key], 0);
  const failures = outcomes.flatMap((outcome) => outcome.failures);
  if (failures.length > 0) console.log("failed:");
  for (const { name, reason } of failures) {
    console.log(`  ${name}`);
    for (const line of reason) console.log(`    ${line}`);
  }
  for (const [file, lines] of outcomes.flatMap(({ serverLines }) => Object.entries(serverLines ?? {}))) {
    console.log(`warnings and errors of the servers of ${file}:`);
    for (const line of lines) console.log(`    ${line}`);
  }
  console.log("slowest files:");
  for (const [path, ms] of files.slice(0, SLOWEST_SHOWN)) console.log(`${seconds(ms).padStart(8)}  ${path}`);
  console.log(`${files.length} files in ${seconds(tookMs)}`);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
