/**
 * A CRIU process that waits for its request on a socket; it was started directly or forked by a service. It can start
 * before its input is ready. The alternative, scripts that CRIU runs at each stage, would cost more than most of its
 * work.
 *
 * When the server is killed, the socket closes: CRIU fails at the next stage and cleans up.
 */
import { closeSync } from "node:fs";
import { attempt } from "../../../system/command.ts";
import { overloaded } from "../../../system/overload.ts";
import { socketPair } from "../../../system/syscalls.ts";
import { criuResponse, stageReply } from "./criu-messages.ts";

/** Work to do at a stage while CRIU waits; `pid` is the sandbox's first process. When it throws, CRIU fails. */
type Stages = Readonly<Record<string, (pid: number) => Promise<void> | undefined>>;

type Outcome =
  | { success: true; pid: number }
  /** `reason`: the error that a stage threw. */
  | { success: false; exitCode: number; reason: unknown };

type CommandOptions = Omit<NonNullable<Parameters<typeof attempt>[1]>, "stdin" | "timeoutMs" | "signal">;

export class CriuProcess implements AsyncDisposable {
  readonly #socket: Bun.Socket;
  /** Resolves with the exit code. */
  readonly #ended: Promise<number>;
  readonly #late: AbortController | undefined;
  readonly #succeeded = Promise.withResolvers<void>();
  #stages: Stages = {};
  /** These promises never reject. */
  readonly #beside: Promise<unknown>[] = [];
  #pid = 0;
  #hasSucceeded = false;
  #reason: unknown;

  private constructor(socket: Bun.Socket, ended: Promise<number>, late?: AbortController) {
    this.#socket = socket;
    this.#ended = ended;
    this.#late = late;
  }

  /** `argv` is the command line without the action. */
  static async start(argv: readonly string[], options: CommandOptions): Promise<CriuProcess> {
    const [own, theirs] = socketPair();
    const late = new AbortController();
    const command = { ...options, stdin: theirs, timeoutMs: null, signal: late.signal };
    const ended = attempt([...argv, "swrk", "0"], command).then(({ exitCode }) => exitCode);
    closeSync(theirs);
    return await CriuProcess.#over(own, () => ended, late);
  }

  /**
   * Uses the process at the other end of this socket. Its exit code is unknown: it has ended when the socket closes,
   * successfully if it said so before. `onEnd` runs as part of the end.
   */
  static async served(fd: number, onEnd: (success: boolean) => Promise<void>): Promise<CriuProcess> {
    const served = await CriuProcess.#over(fd, async (closed) => {
      await closed;
      const success = served.#hasSucceeded;
      await onEnd(success);
      return success ? 0 : 1;
    });
    return served;
  }

  static async #over(
    fd: number,
    endOf: (closed: Promise<void>) => Promise<number>,
    late?: AbortController,
  ): Promise<CriuProcess> {
    // CRIU sends nothing before its request.
    let hear: (message: Buffer) => void = () => undefined;
    const closed = Promise.withResolvers<void>();
    const ended = endOf(closed.promise);
    // Prevents an unhandled rejection; callers that await it still see the failure.
    ended.catch(() => undefined);
    const ours: Bun.FdSocketOptions = {
      fd,
      socket: {
        // CRIU sends one message at a time and waits for the reply.
        data: (_socket, message) => hear(Buffer.from(message)),
        error: () => undefined,
        close: () => closed.resolve(),
      },
    };
    // Bun accepts this option, but the types of this overload lack it.
    const socket = await Bun.connect(ours as unknown as Bun.UnixSocketOptions<undefined>);
    const started = new CriuProcess(socket, ended, late);
    hear = (message) => started.beside(started.#hear(message));
    return started;
  }

  /**
   * Throws when CRIU could not be started, or when a started one exceeds `withinMs`. After a reported success, CRIU
   * only has to exit, so the caller does not wait for that.
   */
  async do(request: Uint8Array, stages: Stages, withinMs?: number): Promise<Outcome> {
    this.#stages = stages;
    if (withinMs !== undefined) {
      const timer = setTimeout(() => this.#late?.abort(), withinMs);
      void this.ended.then(() => clearTimeout(timer));
    }
    this.#say(request);
    const exitCode = await Promise.race([this.#succeeded.promise.then(() => 0), this.#ended]);
    if (exitCode !== 0 && this.#late?.signal.aborted) throw overloaded(`CRIU did not end within ${withinMs} ms`);
    return exitCode === 0 ? { success: true, pid: this.#pid } : { success: false, exitCode, reason: this.#reason };
  }

  /** Registers work that runs beside CRIU, also at a stage. Disposal waits for it, even if CRIU was killed. */
  beside(work: Promise<unknown>): void {
    this.#beside.push(work.catch(() => undefined));
  }

  /** A process without a request ends; any other has ended, or is about to after a success. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.end();
    if (!this.#hasSucceeded) await this.ended;
    // A late message is ignored.
    this.#stages = {};
    await Promise.all(this.#beside);
  }

  /** Closes the connection without waiting for the process. */
  hangUp(): void {
    this.#socket.terminate();
  }

  /** Resolves when the process has ended. */
  get ended(): Promise<unknown> {
    return this.#ended.catch(() => undefined);
  }

  async #hear(message: Buffer): Promise<void> {
    try {
      const { stage, success = false, restored } = criuResponse(message);
      this.#pid = stage?.pid ?? restored?.pid ?? this.#pid;
      if (stage === undefined) {
        this.#hasSucceeded = success;
        if (success) this.#succeeded.resolve();
        return;
      }
      await this.#stages[stage.name ?? ""]?.(this.#pid);
      this.#say(stageReply(true));
    } catch (cause) {
      this.#reason ??= cause;
      this.#say(stageReply(false));
    }
  }

  /** The socket buffer has room for the single pending message. If CRIU is gone, the closed socket reports it. */
  #say(message: Uint8Array): void {
    this.#socket.write(message);
  }
}
