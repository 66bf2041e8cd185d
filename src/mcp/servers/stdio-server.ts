/**
 * A configured server: one process at a time, restarted when it ends. After repeated ends it stays down until a call
 * comes after a pause, so that it does not use up the sandbox's resources.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js";
import {
  ErrorCode,
  type Notification,
  type Request,
  type Result,
  ResultSchema,
  type ServerCapabilities,
} from "@modelcontextprotocol/sdk/types.js";
import { Fault } from "../../contract/fault.ts";
import type { ServerPlan } from "../config.ts";
import { RpcError } from "../rpc-error.ts";
import type { Account } from "./run-as-user.ts";
import { StdioProcess } from "./stdio-process.ts";

/** Time until a server must have responded to `initialize`. */
const SERVER_START_MS = 50_000;
/** The first restart is immediate; later ones wait about twice as long each time, starting with this delay. */
const RESTART_DELAY_MS = 100;
/** After this many ends within the window, the next restart happens with a call after the pause. */
export const RESTARTS_MAX = 5;
export const RESTART_WINDOW_MS = 60_000;
export const RESTART_PAUSE_MS = 30_000;

export const GATEWAY = { name: "mcp-gateway", version: "1.0.0" };

interface Running {
  client: Client;
  process: StdioProcess;
}

export interface ServerListener {
  /** The server is ready, for the first time or again. */
  started(server: StdioServer): void;
  notified(server: StdioServer, notification: Notification): void;
  log(line: string): void;
}

export class StdioServer {
  readonly name: string;
  capabilities: ServerCapabilities = {};
  instructions: string | undefined;
  /** The current process: starting, running or ended. */
  #process: StdioProcess | undefined;
  #running: Promise<Running> | undefined;
  /** Recent end times, and the last reason. */
  #ends: number[] = [];
  #lastEnd = "";
  /** Whether it ever ran. If not, its configuration is wrong and it is not restarted. */
  #hasRun = false;
  #isClosed = false;

  constructor(
    private readonly plan: ServerPlan,
    private readonly account: Account | undefined,
    private readonly listener: ServerListener,
  ) {
    this.name = plan.name;
  }

  /** The first start; fails with the server's own message. */
  async start(signal: AbortSignal): Promise<void> {
    const running = this.#begin();
    running.catch(() => undefined);
    const outOfTime = Promise.withResolvers<never>();
    const onAbort = () => outOfTime.reject(new Fault(504, `${this.name} had no time left to start`));
    signal.addEventListener("abort", onAbort);
    try {
      await Promise.race([running, outOfTime.promise]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  async request(request: Request, options: RequestOptions): Promise<Result> {
    const { client, process } = await this.#runningOrRestarted();
    try {
      return await client.request(request, ResultSchema, options);
    } catch (error) {
      const refusal = RpcError.from(error);
      if (refusal.code !== ErrorCode.ConnectionClosed) throw refusal;
      throw new RpcError(refusal.code, `the server ${this.name} ended during the call: ${process.finalOutput()}`);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#process?.close();
  }

  async #runningOrRestarted(): Promise<Running> {
    if (this.#running === undefined) {
      const waitMs = (this.#ends.at(-1) ?? 0) + RESTART_PAUSE_MS - performance.now();
      if (waitMs > 0) throw new RpcError(ErrorCode.InternalError, this.#pausedMessage(waitMs));
      this.#ends = [];
      this.#restart();
    }
    try {
      return await (this.#running as Promise<Running>);
    } catch (error) {
      throw new RpcError(ErrorCode.InternalError, Fault.from(error).message);
    }
  }

  #pausedMessage(waitMs: number): string {
    const seconds = Math.ceil(waitMs / 1000);
    return `the server ${this.name} keeps ending; a call in ${seconds} s restarts it. Last: ${this.#lastEnd}`;
  }

  #begin(afterMs = 0): Promise<Running> {
    const { argv, variables, repository } = this.plan;
    const process = new StdioProcess(argv, {
      account: this.account,
      cwd: repository?.folder ?? this.account?.home ?? "/",
      variables,
      log: (piece) => this.listener.log(`${this.name}: ${Buffer.from(piece).toString("utf8").trimEnd()}`),
    });
    this.#process = process;
    const client = new Client(GATEWAY, { capabilities: {} });
    client.fallbackNotificationHandler = async (notification) => this.listener.notified(this, notification);
    client.onclose = () => this.#ended(running, process);
    const connected = async (): Promise<Running> => {
      if (afterMs > 0) await Bun.sleep(afterMs);
      if (this.#isClosed) throw new Fault(503, `the server ${this.name} is not needed any more`);
      try {
        await client.connect(process, { timeout: SERVER_START_MS });
      } catch (error) {
        const { code, message } = RpcError.from(error);
        if (code === ErrorCode.ConnectionClosed) await process.close();
        const why = process.finalOutput();
        await process.close();
        // If the process could not be spawned, no exit event follows.
        this.#ended(running, process);
        throw new Fault(502, `the server ${this.name} does not start: ${message} (${why})`, { cause: error });
      }
      this.capabilities = client.getServerCapabilities() ?? {};
      this.instructions = client.getInstructions();
      this.#hasRun = true;
      return { client, process };
    };
    const running = connected();
    this.#running = running;
    return running;
  }

  #restart(afterMs = 0): void {
    this.#begin(afterMs).then(
      () => this.listener.started(this),
      (error) => this.listener.log(Fault.from(error).message),
    );
  }

  #ended(running: Promise<Running>, process: StdioProcess): void {
    if (this.#isClosed || !this.#hasRun || this.#running !== running) return;
    this.#running = undefined;
    this.#lastEnd = process.finalOutput();
    const now = performance.now();
    this.#ends = [...this.#ends.filter((at) => at > now - RESTART_WINDOW_MS), now];
    this.listener.log(`${this.name} ended: ${this.#lastEnd}`);
    if (this.#ends.length > RESTARTS_MAX) return;
    this.#restart(RESTART_DELAY_MS * (2 ** (this.#ends.length - 1) - 1));
  }
}
