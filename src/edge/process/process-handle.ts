/** The server's handle on one edge process: calls it, serves its calls, and kills it when it stops responding. */
import { Channel } from "./channel.ts";
import type { ProcessCalls, ServerCalls } from "./protocol.ts";

/** Missed replies to health checks after which a process is killed. */
const EDGE_PROCESS_PINGS_MISSED_MAX = 2;

/** A started process: lines in, lines out. */
export interface StartedProcess {
  readonly lines: AsyncIterable<string>;
  /** Never throws; lines to a dead process are dropped. */
  send(line: string): void;
  kill(): void;
  /** How it ended. The kernel has closed all its connections by then. */
  readonly exited: Promise<string>;
}

export class ProcessHandle {
  readonly #channel: Channel<ProcessCalls>;
  readonly ask: Channel<ProcessCalls>["call"];
  /** Resolves with how the process ended. */
  readonly over: Promise<string>;
  #isOver = false;
  #pingsMissed = 0;
  #isPinged = false;
  #isReady = false;

  constructor(
    private readonly started: StartedProcess,
    own: ServerCalls,
  ) {
    this.#channel = new Channel<ProcessCalls>((line) => this.send(line), own);
    this.ask = this.#channel.call.bind(this.#channel);
    this.over = started.exited.then((how) => {
      this.#isOver = true;
      this.#channel.close();
      return how;
    });
    void this.#listen();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends a line after all earlier ones. */
  send(line: string): void {
    this.started.send(line);
  }

  /** Runs the initial calls. A process that takes longer is killed, and the calls fail. */
  async begin<T>(ms: number, work: () => Promise<T>): Promise<T> {
    const late = setTimeout(() => this.started.kill(), ms);
    try {
      const done = await work();
      this.#isReady = true;
      return done;
    } finally {
      clearTimeout(late);
    }
  }

  /** Call it periodically: a process that misses several pings is killed. */
  ping(): void {
    if (!this.#isReady) return;
    if (this.#isPinged) {
      if (++this.#pingsMissed >= EDGE_PROCESS_PINGS_MISSED_MAX) this.started.kill();
      return;
    }
    this.#isPinged = true;
    const onPong = () => {
      this.#isPinged = false;
      this.#pingsMissed = 0;
    };
    this.ask("ping").then(onPong, () => undefined);
  }

  async end(): Promise<void> {
    this.started.kill();
    await this.over;
  }

  async #listen(): Promise<void> {
    try {
      for await (const line of this.started.lines) this.#channel.received(line);
    } catch {
      // Malformed output, or the process is gone.
    }
    this.started.kill();
  }
}
