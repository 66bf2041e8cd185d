/** Runs test files with `bun test`, streams its report, and returns the outcome. */
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { LONG } from "../src/base/testing/long.ts";
import { TIMED_MARK } from "../src/base/testing/timed.ts";
import { PROJECT } from "./conventions/source-files.ts";
import { SERVER_LOGS, serverLinesIn } from "./support/server-log.ts";
import { expectedMs, recordMs } from "./timings.ts";

/** Several times the duration of the longest test without its own timeout, on a slow machine with cold caches. */
const TEST_MS = LONG ? 1_800_000 : 300_000;
/** Long enough for the counts at the end of a report. */
const REPORT_END_MAX_CHARS = 20_000;
/** Processes that run files side by side: one more than computes at a time, because many tests wait. */
export const WORKERS = availableParallelism() + 1;
const NOBODY = 65_534;
/** Number of output lines before a failure that the summary repeats. */
const REASON_MAX_LINES = 60;
/** How `bun test` reports one, with the time it took. */
const FAILED = /^\(fail\) (.*?)(?: \[[\d.]+ms\])?$/;
/** Another outcome, with which a new report begins. */
const SETTLED = /^\((?:pass|skip|todo)\) /;
/** From here on `bun test` tells all failures again, without their files. */
const AGAIN = /^\d+ tests? failed:$/;
/** Marks an error outside any test, such as a file that cannot be loaded; the error follows between two rules. */
const BETWEEN = "# Unhandled error between tests";
const RULE = /^-{20,}$/;
/** The line above the reports of a file. */
const FILE = /^(\S+\.test\.ts):$/;

interface Failure {
  /** File and name of the test; "(unnamed)" for a hook of a file, "between tests" for an error outside any test. */
  name: string;
  /** The last lines of its output. */
  reason: readonly string[];
}

export interface Outcome {
  passed: number;
  failed: number;
  /** In the order in which they were reported. */
  failures: readonly Failure[];
  /** What the servers of a file reported, if it failed or they repeated something. */
  serverLines?: Readonly<Record<string, readonly string[]>>;
  /** How long each file took. */
  fileMs: Readonly<Record<string, number>>;
}

/** A run without any test has proved nothing, even if `bun test` reports success. */
export function hasPassed({ passed, failed }: Pick<Outcome, "passed" | "failed">): boolean {
  return passed > 0 && failed === 0;
}

export interface BunTestOptions {
  /** Command that the rest is handed to, such as `ip netns exec NAME`. */
  enter?: readonly string[];
  options?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** Files side by side in so many processes, longest first; otherwise one after the other. */
  workers?: number | undefined;
  /** Tests of a bound of time: left out, or these alone. Otherwise as they come. */
  timed?: "apart" | "only" | undefined;
  /** Runs as an unprivileged user when root starts the tests, so that code that needs root must fail. */
  asNobody?: boolean;
}

export async function bunTest(files: readonly string[], given: BunTestOptions): Promise<Outcome> {
  const home = mkdtempSync(join(tmpdir(), "sandlot-tests-"));
  try {
    const drop = given.asNobody === true ? commandOfNobody(home) : [];
    const timings = join(home, "timings.json");
    const logs = join(home, "server-logs");
    const options = [
      "--timeout",
      String(TEST_MS),
      `--timings=${timings}`,
      "--update-timings",
      ...(given.options ?? []),
    ];
    if (given.timed === "only") options.push("--test-name-pattern", `${RegExp.escape(TIMED_MARK)}$`);
    if (given.workers !== undefined) {
      writeFileSync(timings, JSON.stringify({ version: 1, files: expectedMs(files) }));
      if (drop.length > 0) chownSync(timings, NOBODY, NOBODY);
      options.push(`--parallel=${given.workers}`, "--no-isolate");
    }
    const paths = files.map((file) => `./${file}`);
    const child = Bun.spawn([...(given.enter ?? []), ...drop, process.execPath, "test", ...options, ...paths], {
      cwd: PROJECT,
      env: {
        ...process.env,
        ...(drop.length === 0 ? {} : { HOME: home }),
        ...(given.timed === "apart" ? { SANDLOT_TEST_TIMED: "apart" } : {}),
        [SERVER_LOGS]: logs,
        ...given.env,
      },
      stdio: ["ignore", "inherit", "pipe"],
    });
    const reader = new FailureReader();
    const report = await passOn(child.stderr, (line) => reader.take(line));
    const exitCode = await child.exited;
    const count = (word: string) => Number(new RegExp(`^\\s*(\\d+) ${word}s?$`, "m").exec(report)?.[1] ?? 0);
    const failed = count("fail") + count("error");
    const fileMs = readTimings(timings);
    if (given.workers !== undefined) recordMs(fileMs);
    return {
      passed: count("pass"),
      failed: exitCode === 0 ? failed : Math.max(failed, 1),
      failures: reader.failures,
      serverLines: serverLinesIn(logs, reader.failedFiles),
      fileMs,
    };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** Finds failures in the lines of a report. */
export class FailureReader {
  readonly failures: Failure[] = [];
  readonly failedFiles = new Set<string>();
  #file = "";
  #reason: string[] = [];
  #rulesToCome = 0;
  #isOver = false;

  take(line: string): void {
    if (AGAIN.test(line)) this.#isOver = true;
    if (this.#isOver) return;
    if (line === BETWEEN) {
      this.#reason = [];
      this.#rulesToCome = 2;
      return;
    }
    if (this.#rulesToCome > 0 && RULE.test(line)) {
      this.#rulesToCome -= 1;
      if (this.#rulesToCome === 0) this.#fail("between tests");
      return;
    }
    const file = FILE.exec(line)?.[1];
    const test = FAILED.exec(line)?.[1];
    if (file === undefined && test === undefined && !SETTLED.test(line)) {
      this.#reason.push(line);
      if (this.#reason.length > REASON_MAX_LINES) this.#reason.shift();
      return;
    }
    if (file !== undefined) this.#file = file;
    if (test !== undefined) this.#fail(test);
    this.#reason = [];
  }

  #fail(test: string): void {
    this.failedFiles.add(this.#file);
    this.failures.push({ name: `${this.#file}: ${test}`, reason: this.#reason });
    this.#reason = [];
  }
}

/** The command prefix that drops root's rights; empty unless root runs the tests of a project readable to all users. */
function commandOfNobody(home: string): string[] {
  if (process.getuid?.() !== 0 || Bun.which("setpriv") === null) return [];
  const drop = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  const mayRead = Bun.spawnSync([...drop, process.execPath, "--version"], {
    cwd: PROJECT,
    stdio: ["ignore", "ignore", "ignore"],
  });
  if (mayRead.exitCode !== 0) return [];
  chownSync(home, NOBODY, NOBODY);
  return drop;
}

function readTimings(path: string): Record<string, number> {
  if (!existsSync(path)) return {};
  return (JSON.parse(readFileSync(path, "utf8")) as { files: Record<string, number> }).files;
}

async function passOn(stream: ReadableStream<Uint8Array>, onLine: (line: string) => void): Promise<string> {
  const decoder = new TextDecoder();
  let kept = "";
  let line = "";
  for await (const chunk of stream) {
    process.stderr.write(chunk);
    const text = decoder.decode(chunk, { stream: true });
    kept = (kept + text).slice(-REPORT_END_MAX_CHARS);
    const lines = (line + text).split("\n");
    line = (lines.pop() ?? "").slice(0, REPORT_END_MAX_CHARS);
    for (const whole of lines) onLine(whole);
  }
  return kept;
}
