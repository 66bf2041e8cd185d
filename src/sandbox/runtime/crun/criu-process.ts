/**
 * A CRIU that waits for its request, which goes over a socket: one that was started, or that a service forked. It can
 * be there while what it is to work on is still being made. CRIU could start a script at each stage of its work
 * instead, which would cost more than most of that work.
 *
 * When the server is killed the socket is closed: CRIU fails at the next stage, and clears away after itself.
 */
import { closeSync } from "node:fs";
import { attempt } from "../../../system/command.ts";
import { overloaded } from "../../../system/overload.ts";
import { socketPair } from "../../../system/syscalls.ts";
import { criuResponse, stageReply } from "./criu-messages.ts";

/** What happens at a stage, while CRIU waits; `pid` is the first process. When it throws, CRIU fails. */
type Stages = Readonly<Record<string, (pid: number) => Promise<void> | undefined>>;

type Outcome =
  | { success: true; pid: number }
  /** `reason`: what was thrown at a stage. */
  | { success: false; exitCode: number; reason: unknown };

type CommandOptions = Omit<NonNullable<Parameters<typeof attempt>[1]>, "stdin" | "timeoutMs" | "signal">;

export class CriuProcess implements AsyncDisposable {
  readonly #socket: Bun.Socket;
  /** With its exit code. */
  readonly #ended: Promise<number>;
  readonly #late: AbortController | undefined;
  readonly #succeeded = Promise.withResolvers<void>();
  #stages: Stages = {};
  /** Never rejects. */
  readonly #beside: Promise<unknown>[] = [];
  #pid = 0;
  #hasSucceeded = false;
  #reason: unknown;

  private constructor(socket: Bun.Socket, ended: Promise<number>, late?: AbortController) {
    this.#socket = socket;
    this.#ended = ended;
    this.#late = late;
  }

  /** The command line without the word for what to do. */
  static async start(argv: readonly string[], options: CommandOptions): Promise<CriuProcess> {
    const [own, theirs] = socketPair();
    const late = new AbortController();
    const command = { ...options, stdin: theirs, timeoutMs: null, signal: late.signal };
    const ended = attempt([...argv, "swrk", "0"], command).then(({ exitCode }) => exitCode);
    closeSync(theirs);
    return await CriuProcess.#over(own, () => ended, late);
  }

  /**
   * The one at the other end of this socket. Nobody tells its exit code: it has ended when its end is closed, and well
   * if it had said so before. `onEnd` is part of its end.
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
    // Nothing is heard before it is asked for something.
    let hear: (message: Buffer) => void = () => undefined;
    const closed = Promise.withResolvers<void>();
    const ended = endOf(closed.promise);
    // Whoever asks for it hears of it.
    ended.catch(() => undefined);
    const ours: Bun.FdSocketOptions = {
      fd,
      socket: {
        // It says one thing at a time, and waits for the answer.
        data: (_socket, message) => hear(Buffer.from(message)),
        error: () => undefined,
        close: () => closed.resolve(),
      },
    };
    // Bun takes this; its types have it, but not here.
    const socket = await Bun.connect(ours as unknown as Bun.UnixSocketOptions<undefined>);
    const started = new CriuProcess(socket, ended, late);
    hear = (message) => started.beside(started.#hear(message));
    return started;
  }

  /**
   * Throws when it could not be started, or was started and took longer than `withinMs`. Who says that all went well
   * has nothing left to do but to end, which nobody has to wait for.
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

  /** What is done beside it, also at a stage: it does not go on when this is disposed of, even if CRIU was killed. */
  beside(work: Promise<unknown>): void {
    this.#beside.push(work.catch(() => undefined));
  }

  /** One that has not been asked for anything ends; any other has ended, or is about to after a success. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.end();
    if (!this.#hasSucceeded) await this.ended;
    // What it may have said at last is heard by nobody.
    this.#stages = {};
    await Promise.all(this.#beside);
  }

  /** Nothing more is heard of it, whether it is still there or not. */
  hangUp(): void {
    this.#socket.terminate();
  }

  /** Resolves when nothing is left of it. */
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

  /** There is room for the one message that is on its way. Who does not take it is gone, as is heard otherwise. */
  #say(message: Uint8Array): void {
    this.#socket.write(message);
  }
}
