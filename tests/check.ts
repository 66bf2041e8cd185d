/**
 * `npm run check`: lint, types, conventions and every test that needs neither root nor images, for the minute before a
 * commit. None of these tests has a time bound, so that it can run beside other work.
 */
import { hasPassed, type Outcome } from "./bun-test.ts";
import { runCheckLane } from "./check-lane.ts";
import { PROJECT } from "./conventions/source-files.ts";
import { selectOfLane } from "./lanes.ts";
import { printSummary } from "./summary.ts";

const TOOL_MS = 300_000;

const began = performance.now();
const { files, options } = selectOfLane("check", process.argv.slice(2));
const outcomes = await Promise.all([
  tool("lint", "biome", "check", "."),
  // One checker does no work twice; the tests need the other processors.
  tool("types", "tsc", "--noEmit", "--singleThreaded"),
  runCheckLane(files, { timed: "apart", options: ["--only-failures", ...options] }),
]);
printSummary(outcomes, performance.now() - began);
process.exit(outcomes.every(hasPassed) ? 0 : 1);

/** Runs one more tool that passes or fails; its output is shown in one piece. */
async function tool(title: string, program: string, ...args: string[]): Promise<Outcome> {
  const command = [`${PROJECT}/node_modules/.bin/${program}`, ...args];
  const child = Bun.spawn(command, { cwd: PROJECT, stdio: ["ignore", "pipe", "pipe"], timeout: TOOL_MS });
  const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()];
  const output = (await Promise.all(texts)).join("");
  const isGood = (await child.exited) === 0;
  console.error(isGood ? `${title}: passed` : `${title}: failed\n${output}`);
  return {
    passed: isGood ? 1 : 0,
    failed: isGood ? 0 : 1,
    failures: isGood ? [] : [{ name: title, reason: [] }],
    fileMs: {},
  };
}
