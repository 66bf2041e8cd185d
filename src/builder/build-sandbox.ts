/**
 * A sandbox that belongs to a build. It has the isolation and limits of any other sandbox, but is never listed, and
 * only this process knows its guest's token. Disposing it ends all its processes.
 */
import { randomHex } from "../base/random-hex.ts";
import { shellQuoted } from "../base/shell-text.ts";
import { Fault } from "../contract/fault.ts";
import type { CreatedSandbox, CreateSandbox } from "../contract/internal/host.ts";
import { type GuestProgramName, guestProgram } from "../contract/runtime/guest-programs.ts";
import { buildFile } from "../contract/runtime/image-files.ts";
import type { DiskOrigin } from "../sandbox/booting.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import { GuestCommands } from "../sandbox/guest-link/guest-commands.ts";
import type { RunningSandboxes } from "../sandbox/running-sandboxes.ts";
import type { SandboxRecord } from "../sandbox/sandbox-record.ts";
import type { BuildContext } from "./build-context.ts";
import type { CommandOutput } from "./command-output.ts";
import { shortened } from "./step-line.ts";

const GUEST_TOKEN_BYTES = 32;

const HOME_MAX_CHARS = 1024;
/** Maximum size of a passwd file in which a build looks up homes. */
const PASSWD_MAX_BYTES = 1024 * 1024;
/** Length of the kept end of a guest program's output. */
const GUEST_PROGRAM_SAID_MAX_CHARS = 16 * 1024;

/** Creates unlisted sandboxes. */
export interface SandboxSource {
  /** Boots a sandbox with a fresh disk or a copy of `origin`. Its guest has the settings of the request. */
  boot(request: CreateSandbox, origin?: DiskOrigin): Promise<string>;
  /** The same path as a client's create. */
  create(request: CreateSandbox): Promise<CreatedSandbox>;
  readonly running: RunningSandboxes;
  /** Never throws. */
  destroy(id: string): Promise<void>;
}

export interface BuildSandboxRequest extends Omit<CreateSandbox, "accessTokens"> {
  /** The disk is a copy of this one instead of a fresh one. */
  origin?: DiskOrigin | undefined;
  /** Created on the path of a client's create, from the checkpoint if there is one. */
  isAsForClient?: boolean;
}

const BUILD_FILE = "/.e2b";
const SHELLS = ["/bin/bash", "/bin/sh"];

export class BuildSandbox {
  readonly commands: GuestCommands;
  #shell: Promise<string> | undefined;
  /** Destroys the sandbox at once, so that pending operations fail instead of finishing. */
  readonly #end = () => void this.source.destroy(this.id);

  constructor(
    readonly id: string,
    readonly source: SandboxSource,
    readonly signal: AbortSignal,
    token: string,
    /** Why the checkpoint could not be used, if so. */
    readonly mismatch?: string,
  ) {
    this.commands = new GuestCommands(source.running.require(id).guest.address, token);
    signal.addEventListener("abort", this.#end);
  }

  static async open(source: SandboxSource, request: BuildSandboxRequest, signal: AbortSignal): Promise<BuildSandbox> {
    signal.throwIfAborted();
    const { origin, isAsForClient = false, ...wanted } = request;
    const token = newToken();
    const create = { ...wanted, accessTokens: [token] };
    const made: Pick<CreatedSandbox, "id" | "mismatch"> = isAsForClient
      ? await source.create(create)
      : { id: await source.boot(create, origin) };
    const sandbox = new BuildSandbox(made.id, source, signal, token, made.mismatch);
    if (!signal.aborted) return sandbox;
    await sandbox[Symbol.asyncDispose]();
    throw signal.reason;
  }

  /** Fault 404: the sandbox no longer runs. */
  get record(): SandboxRecord {
    return this.source.running.require(this.id).record;
  }

  /** Runs a shell line in a login shell of this user. Fault 422: it failed. */
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

  /** The command that runs `line`. It sets the steps' PATH again after the profile of the login shell. */
  async shellCommand(line: string, { user, workdir, envVars }: BuildContext) {
    const path = envVars.PATH === undefined ? "" : `export PATH=${shellQuoted(envVars.PATH)}; `;
    const argv: [string, ...string[]] = [await this.#findShell(), "-l", "-c", path + line];
    return { argv, user, cwd: workdir, envVars };
  }

  async hasShell(): Promise<boolean> {
    return await this.#findShell().then(
      () => true,
      () => false,
    );
  }

  /** Runs one of the guest's own programs and returns its stdout. */
  async program<Name extends GuestProgramName>(
    name: Name,
    request: Parameters<typeof guestProgram<Name>>[1],
  ): Promise<string> {
    const { cmd, args, envs, cwd } = guestProgram(name, request);
    const output = { stdout: "", stderr: "" };
    const end = await this.commands.run(
      { argv: [cmd, ...args], user: "root", cwd, envVars: envs },
      (chunk, from) => {
        output[from] = (output[from] + Buffer.from(chunk).toString()).slice(-GUEST_PROGRAM_SAID_MAX_CHARS);
      },
      this.signal,
    );
    if (end.exitCode === 0) return output.stdout.trim();
    throw new Fault(422, output.stderr.trim() || `${name} ended with exit code ${end.exitCode} and said nothing`);
  }

  /** Writes template and build id to the disk. A path that cannot be written is left as it is. */
  async sign(build: { templateId: string; buildId: string }): Promise<void> {
    const content = new Response(buildFile(build)).body ?? new ReadableStream();
    await this.commands.upload(BUILD_FILE, "root", content, this.signal).catch((cause: unknown) => {
      this.signal.throwIfAborted();
      if (!(cause instanceof Fault) || cause.status !== 422) throw cause;
    });
  }

  /** The user's home directory; undefined if there is no such user. */
  async homeOf(user: string): Promise<string | undefined> {
    const passwd = await this.commands.readText("/etc/passwd", PASSWD_MAX_BYTES, this.signal).catch(() => "");
    const line = passwd.split("\n").find((entry) => entry.startsWith(`${user}:`));
    const home = line?.split(":")[5] ?? "";
    return home.startsWith("/") && home.length <= HOME_MAX_CHARS && !home.includes("\0") ? home : undefined;
  }

  /** Writes a checkpoint with memory. An abort ends it in order, without destroying the sandbox at once. */
  async keepMemory(checkpointing: Checkpointing, name: string, owner?: string): Promise<void> {
    const { signal, id } = this;
    const { running } = this.source;
    // The new guest accepts no token any more and its memory holds no settings. Started processes continue.
    await running.require(id).guest.renew(() => running.isAlive(id));
    signal.throwIfAborted();
    signal.removeEventListener("abort", this.#end);
    const options = { memory: true, signal, ...(owner === undefined ? {} : { owner }) };
    await checkpointing.write(this.record, name, options, "keeps running");
    signal.addEventListener("abort", this.#end);
    if (signal.aborted) this.#end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal.removeEventListener("abort", this.#end);
    await this.source.destroy(this.id);
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

/** A failed command, described for the author of the template. */
export class CommandFailure extends Fault {
  constructor(line: string, how: string, output: string) {
    super(
      422,
      `the command ${JSON.stringify(shortened(line))} ${how}${output === "" ? "" : `. Its last output:\n${output}`}`,
    );
  }
}

export function newToken(): string {
  return randomHex(GUEST_TOKEN_BYTES);
}
