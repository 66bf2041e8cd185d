/**
 * The one way this project runs a system tool: arguments as an array, a time limit, bounded output, and an error that
 * says which command failed and what it printed.
 */

import { basename } from "node:path";
import { isRecording, noteUse, step } from "../base/steps.ts";
import { scaled, timeFactorEnv } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "./overload.ts";

const COMMAND_DEFAULT_MS = scaled(30_000);
const COMMAND_OUTPUT_MAX_BYTES = 1024 * 1024;

interface CommandOptions {
  /** Text for standard input, or a descriptor to be it; nothing by default. */
  stdin?: string | number;
  /** Null: whoever started it ends it by `signal` when it takes too long. */
  timeoutMs?: number | null;
  /**
   * What it is called towards a caller who has to come again because it took too long; the program's name by default.
   */
  name?: string;
  cwd?: string;
  /** The whole environment of the command; a minimal one by default, so that nothing of the server's leaks into it. */
  env?: Record<string, string>;
  /** Sees each chunk of output as it comes, for progress on long steps. */
  onOutput?: (text: string) => void;
  /** Ends the command early; it then counts as one that failed. */
  signal?: AbortSignal;
  /** Called as soon as there is a process. */
  onStart?: (pid: number) => void;
  /** Called when the command itself has ended; what it started may still hold its output, and would be waited for. */
  onExit?: (exitCode: number) => Promise<void>;
}

interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export const MINIMAL_ENV: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C.UTF-8",
  ...timeFactorEnv(),
};

/**
 * For a shell that becomes a helper of the server. systemd and a terminal signal every process that was started; the
 * server alone decides when its helpers end. The shell exports PWD, which helpers do not need.
 */
export const IGNORE_STOP_SIGNALS = "trap '' INT TERM HUP; unset PWD; ";

let areShielded = false;

/** From now on every tool gets its own session, so that Ctrl-C reaches the server and not the work that it finishes. */
export function shieldTools(): void {
  areShielded = true;
}

/** For `Bun.spawn`, of each tool that the server waits for. */
export function toolSession(): { detached: boolean } {
  return { detached: areShielded };
}

/** Runs a command to its end and answers how it went, whatever the exit code. */
export async function attempt(argv: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  return await step(`program ${options.name ?? basename(argv[0] ?? "")}`, () => attemptNow(argv, options));
}

async function attemptNow(argv: readonly string[], options: CommandOptions): Promise<CommandResult> {
  const timeoutMs = options.timeoutMs === undefined ? COMMAND_DEFAULT_MS : options.timeoutMs;
  let child: ReturnType<typeof spawnPiped>;
  try {
    child = spawnPiped(argv, options);
  } catch (cause) {
    throw cannotStart(argv[0] ?? "", cause);
  }
  options.onStart?.(child.pid);
  let timedOut = false;
  const end = () => {
    timedOut = true;
    child.kill("SIGKILL");
  };
  const timer = timeoutMs === null ? undefined : setTimeout(end, timeoutMs);
  try {
    const [stdout, stderr, exitCode] = await Promise.all([
      collect(child.stdout, options.onOutput),
      collect(child.stderr, options.onOutput),
      child.exited.then(async (code) => {
        await options.onExit?.(code);
        return code;
      }),
    ]);
    // One that had ended in time, of which this server hears late, was not.
    if (timedOut && child.signalCode !== null) {
      const cause = new Error(`${commandLine(argv)} did not end within ${timeoutMs} ms and was killed`);
      throw overloaded(`${options.name ?? basename(argv[0] ?? "")} did not end within ${timeoutMs} ms`, cause);
    }
    return { exitCode, stdout, stderr };
  } finally {
    noteProcess(child);
    clearTimeout(timer);
  }
}

/** Runs a command that must succeed and answers its standard output. */
export async function run(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await attempt(argv, options);
  if (result.exitCode !== 0) {
    const said = (result.stderr.trim() || result.stdout.trim() || "nothing").slice(-2000);
    throw new Fault(500, `${commandLine(argv)} ended with exit code ${result.exitCode} and said: ${said}`);
  }
  return result.stdout;
}

/** Why a program could not even be started. */
export function cannotStart(program: string, cause: unknown): Fault {
  const shortage = shortageOf(cause);
  if (shortage !== undefined) return overloaded(`${basename(program)} could not be started (${shortage})`, cause);
  return new Fault(500, `cannot run ${program}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
}

function spawnPiped(argv: readonly string[], options: CommandOptions) {
  return Bun.spawn([...argv], {
    stdin: typeof options.stdin === "string" ? new TextEncoder().encode(options.stdin) : (options.stdin ?? "ignore"),
    stdout: "pipe",
    stderr: "pipe",
    env: options.env ?? { ...MINIMAL_ENV },
    ...toolSession(),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: "SIGKILL" as const }),
  });
}

/** Keeps the last COMMAND_OUTPUT_MAX_BYTES: the end of an output is where the reason stands. */
async function collect(stream: ReadableStream<Uint8Array>, onOutput?: (text: string) => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    const piece = decoder.decode(chunk, { stream: true });
    onOutput?.(piece);
    text += piece;
    if (text.length > COMMAND_OUTPUT_MAX_BYTES) text = text.slice(-COMMAND_OUTPUT_MAX_BYTES);
  }
  return text;
}

/** Short enough for an error message; arguments of these tools hold no secrets. */
function commandLine(argv: readonly string[]): string {
  const line = argv.join(" ");
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/** Records the processor time of a program that has ended, with that of its children that it has waited for. */
export function noteProcess(child: Pick<Bun.Subprocess, "resourceUsage">): void {
  if (!isRecording()) return;
  const microseconds = child.resourceUsage()?.cpuTime.total;
  if (microseconds !== undefined) noteUse("helpers", Number(microseconds) / 1000);
}
