/**
 * A sandbox that belongs to a build: with the walls and limits of any other, but nobody is told of it, and its guest
 * opens to a token that only this process has. It goes when it is disposed of, and all its processes with it.
 */
import { Fault } from "../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox } from "../contract/internal/host.ts";
import { type GuestProgramName, guestProgram } from "../contract/runtime/guest-programs.ts";
import { buildFile } from "../contract/runtime/image-files.ts";
import type { Origin } from "../sandbox/booting.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import { GuestCommands } from "../sandbox/guest-link/guest-commands.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { BuildContext } from "./build-context.ts";
import type { CommandOutput } from "./build-log.ts";
import { BUILD_COMMAND_SHOWN_CHARS } from "./limits.ts";
import { shellQuoted } from "./shell-quoted.ts";

const HOME_MAX_CHARS = 1024;
/** A passwd file in which a build looks for homes. */
const PASSWD_MAX_BYTES = 1024 * 1024;
/** What is kept of the end of what a program of the guest's own says. */
const GUEST_PROGRAM_SAID_MAX_CHARS = 16 * 1024;

/** What makes sandboxes that nobody is told of. */
export interface SandboxSource {
  /** With a fresh disk, or a copy of one. Its guest has the settings of the request. */
  boot(request: CreateSandbox, origin?: Origin): Promise<string>;
  /** As for a client. */
  create(request: CreateSandbox): Promise<CreatedSandbox>;
  /** A new guest in the place of the one that runs, which knows nothing of what that was told. */
  renew(id: string): Promise<void>;
  /** Fault 404 when it does not run any more. */
  recordOf(id: string): SandboxRecord;
  addressOf(id: string): string;
  /** Never throws. */
  destroy(id: string): Promise<void>;
}

const BUILD_FILE = "/.e2b";
const SHELLS = ["/bin/bash", "/bin/sh"];

export class BuildSandbox {
  readonly commands: GuestCommands;
  #shell: Promise<string> | undefined;
  /** At once: whatever is being done with it fails then, instead of coming to its end. */
  readonly #end = () => void this.source.destroy(this.id);

  private constructor(
    readonly id: string,
    readonly source: SandboxSource,
    readonly request: Omit<CreateSandbox, "accessTokens">,
    readonly signal: AbortSignal,
    token: string,
    /** Why the checkpoint that it was to begin with could not be used, if so. */
    readonly mismatch: string | undefined,
  ) {
    this.commands = new GuestCommands(source.addressOf(id), token);
    signal.addEventListener("abort", this.#end);
  }

  /** `start` makes the sandbox of a request. */
  static async of(
    source: SandboxSource,
    start: (opened: CreateSandbox) => Promise<string | CreatedSandbox>,
    request: Omit<CreateSandbox, "accessTokens">,
    signal: AbortSignal,
  ): Promise<BuildSandbox> {
    signal.throwIfAborted();
    const token = newToken();
    const started = await start({ ...request, accessTokens: [token] });
    const { id, mismatch } = typeof started === "string" ? { id: started } : started;
    const sandbox = new BuildSandbox(id, source, request, signal, token, mismatch);
    if (!signal.aborted) return sandbox;
    await sandbox[Symbol.asyncDispose]();
    throw signal.reason;
  }

  get record(): SandboxRecord {
    return this.source.recordOf(this.id);
  }

  /** A line for the shell, as a login shell of this user would run it. Fault 422 when it does not end well. */
  async shell(line: string, context: BuildContext, output: CommandOutput, signal = this.signal): Promise<void> {
    const end = await this.commands.run(await this.shellCommand(line, context), output.take, signal);
    const last = output.end();
    if (end.exitCode === 0) return;
    throw new CommandFailure(
      line,
      end.signal === "" ? `ended with exit code ${end.exitCode}` : `got ${end.signal}`,
      last,
    );
  }

  /** What a shell gets that runs `line`. The profile of a login shell sets PATH anew; the steps' own word counts. */
  async shellCommand(line: string, { user, workdir, envVars }: BuildContext) {
    const path = envVars.PATH === undefined ? "" : `export PATH=${shellQuoted(envVars.PATH)}; `;
    const argv = [await this.#findShell(), "-l", "-c", path + line] as const;
    return { argv: [...argv] as [string, ...string[]], user, cwd: workdir, envVars };
  }

  async hasShell(): Promise<boolean> {
    return await this.#findShell().then(
      () => true,
      () => false,
    );
  }

  /** Runs a program of the guest's own. Answers what it said on stdout. */
  async program<Name extends GuestProgramName>(
    name: Name,
    request: Parameters<typeof guestProgram<Name>>[1],
  ): Promise<string> {
    const { cmd, args, envs, cwd } = guestProgram(name, request);
    const said = { stdout: "", stderr: "" };
    const end = await this.commands.run(
      { argv: [cmd, ...args], user: "root", cwd, envVars: envs },
      (chunk, from) => {
        said[from] = (said[from] + Buffer.from(chunk).toString()).slice(-GUEST_PROGRAM_SAID_MAX_CHARS);
      },
      this.signal,
    );
    if (end.exitCode === 0) return said.stdout.trim();
    throw new Fault(422, said.stderr.trim() || `${name} ended with exit code ${end.exitCode} and said nothing`);
  }

  /** Writes down what the sandboxes of this disk are of. A place that cannot be written to is left as it is. */
  async sign(build: { templateId: string; buildId: string }): Promise<void> {
    const content = new Response(buildFile(build)).body ?? new ReadableStream();
    await this.commands.upload(BUILD_FILE, "root", content, this.signal).catch((cause: unknown) => {
      this.signal.throwIfAborted();
      if (!(cause instanceof Fault) || cause.status !== 422) throw cause;
    });
  }

  /** Of this user; undefined if there is no such user. */
  async homeOf(user: string): Promise<string | undefined> {
    const passwd = await this.commands.readText("/etc/passwd", PASSWD_MAX_BYTES, this.signal).catch(() => "");
    const line = passwd.split("\n").find((entry) => entry.startsWith(`${user}:`));
    const home = line?.split(":")[5] ?? "";
    return home.startsWith("/") && home.length <= HOME_MAX_CHARS && !home.includes("\0") ? home : undefined;
  }

  /** Writes all that runs in it. Who is being written is not ended at once: the writing is, in good order, and soon. */
  async keepMemory(checkpointing: Checkpointing, name: string, owner?: string): Promise<void> {
    const { signal } = this;
    await this.#close();
    signal.throwIfAborted();
    signal.removeEventListener("abort", this.#end);
    const onWritten = () => {
      signal.addEventListener("abort", this.#end);
      if (signal.aborted) this.#end();
    };
    const options = { memory: true, signal, onWritten, ...(owner === undefined ? {} : { owner }) };
    await checkpointing.write(this.record, name, options, "goes on");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal.removeEventListener("abort", this.#end);
    await this.source.destroy(this.id);
  }

  /** From now on its guest opens to nobody, and nothing that it was told is in its memory. What was started goes on. */
  async #close(): Promise<void> {
    await this.source.renew(this.id);
  }

  #findShell(): Promise<string> {
    this.#shell ??= this.#lookForShell();
    return this.#shell;
  }

  async #lookForShell(): Promise<string> {
    for (const shell of SHELLS) if (await this.commands.exists(shell, this.signal)) return shell;
    throw new Fault(422, `this image has no shell to run a command with: there is neither ${SHELLS.join(" nor ")}`);
  }
}

/** A command that ended badly, in words for whoever wrote it. */
export class CommandFailure extends Fault {
  constructor(line: string, how: string, output: string) {
    const shown = line.length > BUILD_COMMAND_SHOWN_CHARS ? `${line.slice(0, BUILD_COMMAND_SHOWN_CHARS)}…` : line;
    super(422, `the command ${JSON.stringify(shown)} ${how}${output === "" ? "" : `. Its last output:\n${output}`}`);
  }
}

function newToken(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
}
