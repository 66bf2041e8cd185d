/** The server's hold on one process of the edge: asks it, answers it, and ends it when it is of no use any more. */
import { EDGE_PROCESS_PINGS_MISSED_MAX } from "../limits.ts";
import type { ProcessCalls, ServerCalls } from "./calls.ts";
import { Channel } from "./channel.ts";

/** A process as it was started: lines in, lines out. */
export interface StartedProcess {
  readonly lines: AsyncIterable<string>;
  /** Never throws; a process that is gone gets nothing. */
  send(line: string): void;
  kill(): void;
  /** How it ended. The kernel has closed all its connections by then. */
  readonly exited: Promise<string>;
}

export class ProcessHold {
  readonly #started: StartedProcess;
  readonly #channel: Channel<ProcessCalls>;
  readonly ask: Channel<ProcessCalls>["call"];
  /** Resolves with how the process ended, once it has. */
  readonly over: Promise<string>;
  #isOver = false;
  #pingsMissed = 0;
  #isPinged = false;
  #isReady = false;
  /** Told in this turn, and not sent yet. */
  #soon = "";

  constructor(started: StartedProcess, own: ServerCalls) {
    this.#started = started;
    this.#channel = new Channel<ProcessCalls>((line) => this.tell(line), own);
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

  /** Behind all that was told before. */
  tell(line: string): void {
    const lines = this.#soon + line;
    this.#soon = "";
    if (lines !== "") this.#started.send(lines);
  }

  /** At the end of this turn, or before whatever else is told: whoever gets an answer in this turn has it first. */
  tellSoon(line: string): void {
    if (this.#soon === "") setImmediate(() => this.tell(""));
    this.#soon += line;
  }

  /** What it has to do first. One that takes longer for it is ended, and the work is refused. */
  async begin<T>(ms: number, work: () => Promise<T>): Promise<T> {
    const late = setTimeout(() => this.#started.kill(), ms);
    try {
      const done = await work();
      this.#isReady = true;
      return done;
    } finally {
      clearTimeout(late);
    }
  }

  /** Called now and then: a process that has begun and has not answered to several is ended. */
  ping(): void {
    if (!this.#isReady) return;
    if (this.#isPinged) {
      if (++this.#pingsMissed >= EDGE_PROCESS_PINGS_MISSED_MAX) this.#started.kill();
      return;
    }
    this.#isPinged = true;
    const answered = () => {
      this.#isPinged = false;
      this.#pingsMissed = 0;
    };
    this.ask("ping").then(answered, () => undefined);
  }

  async end(): Promise<void> {
    this.#started.kill();
    await this.over;
  }

  async #listen(): Promise<void> {
    try {
      for await (const line of this.#started.lines) this.#channel.received(line);
    } catch {
      // What it says is nothing that can be understood; or it is gone.
    }
    this.#started.kill();
  }
}
