/**
 * Which tests run where and how; the place and the name of a file say it:
 *
 *   x.performance.test.ts, tests/performance/  performance  holds a bound of time: last, alone, one after the other
 *   other files below tests/ but tests/house/  sandboxes    plays on real sandboxes, one after the other; needs root
 *   x.root.test.ts                             root         switches users, mounts, or looks at the whole machine; needs root
 *   all others                                 check        runs anywhere, also as `npm run check`
 */
import { relative } from "node:path";
import { PROJECT } from "./house/source-files.ts";

/** In the order in which they run. */
export const LANES = ["check", "root", "sandboxes", "performance"] as const;
export type Lane = (typeof LANES)[number];

/** Options of `bun test` whose value may be an argument of its own. */
const WITH_VALUE: ReadonlySet<string> = new Set([
  "-t",
  "--test-name-pattern",
  "--timeout",
  "--retry",
  "--rerun-each",
  "--seed",
]);

export function laneOf(path: string): Lane {
  if (path.endsWith(".performance.test.ts") || path.startsWith("tests/performance/")) return "performance";
  if (path.startsWith("tests/") && !path.startsWith("tests/house/")) return "sandboxes";
  return path.endsWith(".root.test.ts") ? "root" : "check";
}

interface Selection {
  options: string[];
  files: string[];
}

/** What the arguments of `npm test` ask for: options go to `bun test`, all else is part of the path of a test. */
export function selectTests(args: readonly string[], all: readonly string[] = allTests()): Selection {
  const isOption = (argument: string, at: number) => argument.startsWith("-") || WITH_VALUE.has(args[at - 1] ?? "");
  const parts = args.filter((argument, at) => !isOption(argument, at)).map(pathInProject);
  for (const part of parts) {
    if (!all.some((path) => path.includes(part))) throw new Error(`no test has "${part}" in its path`);
  }
  return {
    options: args.filter(isOption),
    files: parts.length === 0 ? [...all] : all.filter((path) => parts.some((part) => path.includes(part))),
  };
}

export function filesOfLane(lane: Lane, files: readonly string[]): string[] {
  return files.filter((path) => laneOf(path) === lane);
}

function allTests(): string[] {
  return [...new Bun.Glob("{bench,src,tests}/**/*.test.ts").scanSync({ cwd: PROJECT })].sort();
}

function pathInProject(part: string): string {
  return part.startsWith("/") ? relative(PROJECT, part) : part.replace(/^\.\//, "");
}
