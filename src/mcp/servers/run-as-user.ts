/**
 * Programs that the gateway starts. They are not root's, though the gateway is: they run as the user that commands of
 * clients run as, each in a session of its own, and they end when the gateway does, however it ends.
 */
import { lchown } from "node:fs/promises";

/** The last of what a server says on standard error, for error messages. */
const STDERR_KEPT_BYTES = 4096;

export interface Account {
  name: string;
  id: number;
  home: string;
}

export const USER: Account = { name: "user", id: 1000, home: "/home/user" };
/** The gateway's own, which no server needs to know. */
export const TOKEN_VARIABLE = "GATEWAY_ACCESS_TOKEN";

export interface RunOptions {
  /** Undefined: as whoever runs the gateway. */
  account: Account | undefined;
  cwd: string;
  variables: Readonly<Record<string, string>>;
}

export type Program = Bun.Subprocess<"pipe", "pipe", "pipe">;

/** Throws when there is no such folder. */
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

/** What the sandbox has for every program, and thus the gateway, too. */
export function ownVariables(): Record<string, string | undefined> {
  const { [TOKEN_VARIABLE]: _, ...others } = process.env;
  return others;
}

/** Runs a program to its end. Gives what it said last if it failed. */
export async function runAsUser(
  argv: readonly string[],
  { signal, ...options }: RunOptions & { signal: AbortSignal },
): Promise<string | undefined> {
  const ended = Promise.withResolvers<string>();
  const program = startAsUser(argv, options, ended.resolve);
  const said = new LastWords(program.stderr);
  const rest = program.stdout.pipeTo(new WritableStream()).catch(() => undefined);
  program.stdin.end();
  const end = () => endGroup(program, "SIGKILL");
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  try {
    const how = await ended.promise;
    // Whoever it left behind may hold its pipes: they are ended, too.
    end();
    await Promise.all([said.over, rest]);
    if (program.exitCode === 0) return undefined;
    return `${said.text()} (${how})${signal.aborted ? "; there was no more time" : ""}`;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** The last bytes of a stream of text, for error messages. */
export class LastWords {
  #kept = Buffer.alloc(0);
  readonly over: Promise<void>;

  constructor(stream: ReadableStream<Uint8Array>, onPiece: (piece: Uint8Array) => void = () => undefined) {
    // The end of the process is what counts, not how its pipe ends.
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

/** With all that it started and that has not left its session. */
export function endGroup({ pid }: { pid: number }, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It is gone.
  }
}

export async function giveToUser(...paths: string[]): Promise<void> {
  for (const path of paths) await lchown(path, USER.id, USER.id);
}
