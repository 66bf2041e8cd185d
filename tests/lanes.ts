/**
 * Which tests run where and how, by the path of the file:
 *
 *   tests/performance/                  performance  capacity of the machine: last, alone, one after the other
 *   tests/security/alone/               machine      floods, or looks at the whole machine: one after the other; root
 *   other tests/, but tests/conventions/ sandboxes   looks only at its own sandboxes: side by side; root
 *   x.root.test.ts                      root         switches users, mounts, or looks at the whole machine; needs root
 *   all others                          check        runs anywhere, also as `npm run check`
 *
 * A test with a time bound is made with `timed` (src/base/testing/timed.ts). Lanes that run files side by side skip it,
 * and the lane `performance` runs it; in the other lanes nothing runs beside it anyway.
 */
import { relative } from "node:path";
import { Fault } from "../src/contract/fault.ts";
import { importsOf, PROJECT, readText } from "./conventions/source-files.ts";

/** In the order in which they run. */
export const LANES = ["check", "root", "sandboxes", "machine", "performance"] as const;
export type Lane = (typeof LANES)[number];

/** Options of `bun test` whose value may be a separate argument. */
const WITH_VALUE: ReadonlySet<string> = new Set([
  "-t",
  "--test-name-pattern",
  "--timeout",
  "--retry",
  "--rerun-each",
  "--seed",
]);

export function laneOf(path: string): Lane {
  if (path.startsWith("tests/performance/")) return "performance";
  if (path.startsWith("tests/security/alone/")) return "machine";
  if (path.startsWith("tests/") && !path.startsWith("tests/conventions/")) return "sandboxes";
  return path.endsWith(".root.test.ts") ? "root" : "check";
}

/** Whether files of this lane run at the same time, in a run of all. */
export function isSideBySide(lane: Lane): boolean {
  return lane !== "machine" && lane !== "performance";
}

interface Selection {
  options: string[];
  files: string[];
}

/** Parses the arguments of `npm test`: options go to `bun test`, all others are parts of test paths. */
export function selectTests(args: readonly string[], all: readonly string[] = allTests()): Selection {
  const isOption = (argument: string, at: number) => argument.startsWith("-") || WITH_VALUE.has(args[at - 1] ?? "");
  const parts = args.filter((argument, at) => !isOption(argument, at)).map(pathInProject);
  for (const part of parts) {
    if (!all.some((path) => path.includes(part))) throw new Fault(400, `no test has "${part}" in its path`);
  }
  return {
    options: args.filter(isOption),
    files: parts.length === 0 ? [...all] : all.filter((path) => parts.some((part) => path.includes(part))),
  };
}

/** The same for one lane. An empty selection is an error: `bun test` without a path would run every test. */
export function selectOfLane(lane: Lane, args: readonly string[], all: readonly string[] = allTests()): Selection {
  const { options, files } = selectTests(args, all);
  const own = filesOfLane(lane, files);
  if (own.length > 0) return { options, files: own };
  throw new Fault(
    400,
    `no test of the lane "${lane}" has ${args.join(" or ")} in its path; run npm test -- PATH for the others`,
  );
}

export function filesOfLane(lane: Lane, files: readonly string[]): string[] {
  return files.filter((path) => laneOf(path) === lane);
}

export function filesWithTimedTests(files: readonly string[]): string[] {
  return files.filter((path) => importsOf(readText(path)).some(({ specifier }) => specifier.endsWith("/timed.ts")));
}

function allTests(): string[] {
  return [...new Bun.Glob("{bench,src,tests}/**/*.test.ts").scanSync({ cwd: PROJECT })].sort();
}

function pathInProject(part: string): string {
  return part.startsWith("/") ? relative(PROJECT, part) : part.replace(/^\.\//, "");
}
