/**
 * Starts programs for the gateway. The gateway runs as root, but its programs run as the user of clients' commands,
 * each in its own session, and end with the gateway, however it ends.
 */
import { lchown } from "node:fs/promises";

/** Length of the kept end of a server's stderr, for error messages. */
const STDERR_KEPT_BYTES = 4096;

export interface Account {
  name: string;
  id: number;
  home: string;
}

export const USER: Account = { name: "user", id: 1000, home: "/home/user" };
/** The gateway's own variable, which servers must not see. */
export const TOKEN_VARIABLE = "GATEWAY_ACCESS_TOKEN";

export interface RunOptions {
  /** Undefined: the gateway's own user. */
  account: Account | undefined;
  cwd: string;
  variables: Readonly<Record<string, string>>;
}

export type Program = Bun.Subprocess<"pipe", "pipe", "pipe">;

/** Throws if the folder does not exist. */
export function startAsUser(
  argv: readonly string[],
  { account, cwd, variables }: RunOptions,
  onExit: (end: string) => void,
): Program {
  const { name, id, home } = account ?? {};
  const rights = account === undefined ? [] : [`--reuid=${id}`, `--regid=${id}`, "--init-groups"];
  return Bun.spawn(["setpriv", ...rights, "--pdeathsig=KILL", "--", ...argv], {
    env: Object.assign(ownVariables(), account && { HOME: home, USER: name, LOGNAME: name }, variables),
    cwd,
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
    onExit: (_, code, signal) => onExit(endOf(code, signal)),
  });
}

/** The environment that the sandbox gives to every program, the gateway included. */
export function ownVariables(): Record<string, string | undefined> {
  const { [TOKEN_VARIABLE]: _, ...others } = process.env;
  return others;
}

/** Runs a program to its end. Returns its last output if it failed. */
export async function runAsUser(
  argv: readonly string[],
  { signal, ...options }: RunOptions & { signal: AbortSignal },
): Promise<string | undefined> {
  const ended = Promise.withResolvers<string>();
  const program = startAsUser(argv, options, ended.resolve);
  const finalOutput = new FinalOutput(program.stderr);
  const rest = program.stdout.pipeTo(new WritableStream()).catch(() => undefined);
  program.stdin.end();
  const end = () => endGroup(program, "SIGKILL");
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  try {
    const how = await ended.promise;
    // End its remaining child processes, which may hold its pipes open.
    end();
    await Promise.all([finalOutput.over, rest]);
    if (program.exitCode === 0) return undefined;
    return `${finalOutput.text()} (${how})${signal.aborted ? "; there was no more time" : ""}`;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** The last bytes of a text stream, for error messages. */
export class FinalOutput {
  #kept = Buffer.alloc(0);
  readonly over: Promise<void>;

  constructor(stream: ReadableStream<Uint8Array>, onPiece: (piece: Uint8Array) => void = () => undefined) {
    // Ignore pipe errors: the end of the process is reported separately.
    this.over = this.#read(stream, onPiece).catch(() => undefined);
  }

  text(): string {
    return this.#kept.toString("utf8").trim();
  }

  async #read(stream: ReadableStream<Uint8Array>, onPiece: (piece: Uint8Array) => void): Promise<void> {
    for await (const piece of stream) {
      this.#kept = Buffer.concat([this.#kept, piece]).subarray(-STDERR_KEPT_BYTES);
      onPiece(piece);
    }
  }
}

function endOf(code: number | null, signal: number | string | null): string {
  return signal === null ? `exit code ${code}` : `ended by ${signal}`;
}

/** Signals the program and its children in the same process group. */
export function endGroup({ pid }: { pid: number }, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The process is gone.
  }
}

export async function giveToUser(...paths: string[]): Promise<void> {
  for (const path of paths) await lchown(path, USER.id, USER.id);
}
