/**
 * A started CRIU that gets its request over a socket. It can start before its input is ready. CRIU reports each stage
 * and waits for a reply, so the caller does its own work between two stages. The alternative, scripts that CRIU runs at
 * each stage, would cost more than most of its work.
 *
 * When the server is killed, the socket closes: CRIU fails at the next stage and cleans up.
 */
import { closeSync } from "node:fs";
import { attempt } from "../../../system/command.ts";
import { overloaded } from "../../../system/overload.ts";
import { socketPair } from "../../../system/syscalls.ts";
import { criuResponse, stageReply } from "./criu-messages.ts";

/** The last response of a CRIU that succeeded, in place of a stage. */
const SUCCESS = "success";

type CommandOptions = Omit<NonNullable<Parameters<typeof attempt>[1]>, "stdin" | "timeoutMs" | "signal">;

export class CriuFailed extends Error {
  constructor(readonly exitCode: number) {
    super(`CRIU ended with exit code ${exitCode}`);
  }
}

export class CriuProcess implements AsyncDisposable {
  readonly ended: Promise<unknown>;
  #withinMs = 0;
  #awaited: { stage: string; reached: PromiseWithResolvers<number> } | undefined;
  #isAtStage = false;
  #hasSucceeded = false;
  #pid = 0;

  private constructor(
    private readonly socket: Bun.Socket,
    private readonly exited: Promise<number>,
    private readonly late: AbortController,
  ) {
    this.ended = exited.catch(() => undefined);
  }

  /** `argv` is the command line without the action. */
  static async start(argv: readonly string[], options: CommandOptions): Promise<CriuProcess> {
    const [fd, theirs] = socketPair();
    const late = new AbortController();
    const command = { ...options, stdin: theirs, timeoutMs: null, signal: late.signal };
    const exited = attempt([...argv, "swrk", "0"], command).then(({ exitCode }) => exitCode);
    closeSync(theirs);
    // CRIU sends nothing before its request, then one message at a time, and waits for each reply.
    let hear: (message: Uint8Array) => void = () => undefined;
    const data = (_socket: Bun.Socket, message: Uint8Array) => hear(message);
    const ours: Bun.FdSocketOptions = { fd, socket: { data, error: () => undefined } };
    // Bun accepts this option, but the types of this overload lack it.
    const socket = await Bun.connect(ours as unknown as Bun.UnixSocketOptions<undefined>);
    const criu = new CriuProcess(socket, exited, late);
    hear = (message) => criu.#onMessage(message);
    return criu;
  }

  /** Sends the request. CRIU is killed when it has not ended within this time. */
  begin(request: Uint8Array, withinMs: number): void {
    this.#withinMs = withinMs;
    const timer = setTimeout(() => this.late.abort(), withinMs);
    void this.ended.then(() => clearTimeout(timer));
    this.socket.write(request);
  }

  /**
   * Lets CRIU continue until it waits at this stage. Returns the pid of the sandbox's first process, if it exists.
   * Throws `CriuFailed` when CRIU ends, and a Fault when it could not be started or takes too long.
   */
  async until(stage: string): Promise<number> {
    const reached = Promise.withResolvers<number>();
    this.#awaited = { stage, reached };
    if (this.#isAtStage) this.#reply(true);
    return await Promise.race([reached.promise, this.exited.then((exitCode) => this.#judge(exitCode, stage))]);
  }

  /** Lets CRIU continue until it reports success. It then only has to exit, so the caller does not wait for that. */
  succeed(): Promise<number> {
    return this.until(SUCCESS);
  }

  /**
   * Ends a CRIU without a request, and makes one that waits at a stage fail, which undoes its work in order. Resolves
   * when it has ended; after a success it is about to.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#awaited = undefined;
    if (this.#isAtStage) this.#reply(false);
    this.socket.end();
    if (!this.#hasSucceeded) await this.ended;
  }

  #onMessage(message: Uint8Array): void {
    const { stage, success = false, restored } = criuResponse(message);
    this.#pid = stage?.pid ?? restored?.pid ?? this.#pid;
    this.#isAtStage = stage !== undefined;
    this.#hasSucceeded = stage === undefined && success;
    const reached = this.#hasSucceeded ? SUCCESS : stage?.name;
    if (reached !== undefined && reached === this.#awaited?.stage) this.#awaited.reached.resolve(this.#pid);
    else if (this.#isAtStage) this.#reply(this.#awaited !== undefined);
  }

  /** The socket buffer has room for the single pending message. If CRIU is gone, its exit reports that. */
  #reply(goOn: boolean): void {
    this.#isAtStage = false;
    this.socket.write(stageReply(goOn));
  }

  /** The exit of a CRIU that succeeded may be noticed before its last message. */
  #judge(exitCode: number, awaited: string): number {
    if (exitCode === 0 && awaited === SUCCESS) return this.#pid;
    if (this.late.signal.aborted) throw overloaded(`CRIU did not end within ${this.#withinMs} ms`);
    throw new CriuFailed(exitCode);
  }
}
