/**
 * The only way this project runs a system tool: arguments as an array, a timeout, bounded output, and an error with the
 * command and its output.
 *
 * The module src/system wraps Linux: system calls, tools, cgroups, mounts and netlink. It never decides about sandboxes
 * or tenants.
 */
import { basename } from "node:path";
import { errorMessage } from "../base/error-message.ts";
import { noteUse, recordsUsage, step } from "../base/steps.ts";
import { scaled, timeFactorEnv } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "./overload.ts";

const COMMAND_DEFAULT_MS = scaled(30_000);
const COMMAND_OUTPUT_MAX_BYTES = 1024 * 1024;

export interface CommandOptions {
  /** Text for standard input, or a descriptor; empty by default. */
  stdin?: string | number;
  /** Null: no timeout; the caller ends the command with `signal`. */
  timeoutMs?: number | null;
  /** Name of the command in the timeout error for clients; the program's name by default. */
  name?: string;
  /** Default: /, because Bun runs what the file bunfig.toml of its folder says. */
  cwd?: string;
  /** The complete environment of the command; minimal by default, so that nothing of the server's environment leaks. */
  env?: Record<string, string>;
  /** Gets each chunk of output, for progress on long steps. */
  onOutput?: (text: string) => void;
  /** How much of the end of each output is returned; COMMAND_OUTPUT_MAX_BYTES by default. */
  outputMaxBytes?: number;
  /** Gives the command no pipes: processes that it leaves behind would keep them open. */
  silent?: boolean;
  /** Ends the command early; it then counts as failed. */
  signal?: AbortSignal;
  onStart?: (pid: number) => void;
  /** Called when the command itself has ended; child processes may still hold its output open. */
  onExit?: (exitCode: number) => Promise<void>;
}

export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export const MINIMAL_ENV: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C.UTF-8",
  ...timeFactorEnv(),
};

/** The environment of this process. */
export function ownEnv(): Record<string, string> {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

/**
 * For a shell that becomes a helper of the server. systemd and terminals signal every process of the service or
 * session, but the server alone decides when its helpers end. The shell exports PWD, which helpers do not need.
 */
export const IGNORE_STOP_SIGNALS = "trap '' INT TERM HUP; unset PWD; ";

let areShielded = false;

/** From now on every tool gets its own session, so that Ctrl-C reaches the server and not the work that it finishes. */
export function detachTools(): void {
  areShielded = true;
}

/** Options of `Bun.spawn` for each tool that the server waits for. */
export function toolSession(): { detached: boolean } {
  return { detached: areShielded };
}

/** Runs a command to its end and returns its result, whatever the exit code. */
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
      collect(child.stdout, options),
      collect(child.stderr, options),
      child.exited.then(async (code) => {
        await options.onExit?.(code);
        return code;
      }),
    ]);
    // A command that ended in time is not an error, even if this server notices late.
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

/** Runs a command that must succeed and returns its standard output. */
export async function run(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await attempt(argv, options);
  if (result.exitCode !== 0) throw commandFailed(argv, result);
  return result.stdout;
}

export function commandFailed(argv: readonly string[], { exitCode, stdout, stderr }: CommandResult): Fault {
  const output = (stderr.trim() || stdout.trim() || "nothing").slice(-2000);
  return new Fault(500, `${commandLine(argv)} ended with exit code ${exitCode} and said: ${output}`);
}

export function cannotStart(program: string, cause: unknown): Fault {
  const shortage = shortageOf(cause);
  if (shortage !== undefined) return overloaded(`${basename(program)} could not be started (${shortage})`, cause);
  return new Fault(500, `cannot run ${program}: ${errorMessage(cause)}`, { cause });
}

function spawnPiped(argv: readonly string[], options: CommandOptions) {
  return Bun.spawn([...argv], {
    stdin: typeof options.stdin === "string" ? new TextEncoder().encode(options.stdin) : (options.stdin ?? "ignore"),
    stdout: options.silent ? "ignore" : "pipe",
    stderr: options.silent ? "ignore" : "pipe",
    env: options.env ?? { ...MINIMAL_ENV },
    ...toolSession(),
    cwd: options.cwd ?? "/",
    ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: "SIGKILL" as const }),
  });
}

/** Keeps the last bytes, because the reason is at the end. */
async function collect(
  stream: ReadableStream<Uint8Array> | undefined,
  { onOutput, outputMaxBytes = COMMAND_OUTPUT_MAX_BYTES }: CommandOptions,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream ?? []) {
    const piece = decoder.decode(chunk, { stream: true });
    onOutput?.(piece);
    text += piece;
    if (text.length > outputMaxBytes) text = text.slice(-outputMaxBytes);
  }
  return text;
}

/** Short enough for an error message; arguments of these tools contain no secrets. */
function commandLine(argv: readonly string[]): string {
  const line = argv.join(" ");
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/** Records the CPU time of an ended program, including children that it has waited for. */
function noteProcess(child: Pick<Bun.Subprocess, "resourceUsage">): void {
  if (!recordsUsage()) return;
  const microseconds = child.resourceUsage()?.cpuTime.total;
  if (microseconds !== undefined) noteUse("helpers", Number(microseconds) / 1000);
}
