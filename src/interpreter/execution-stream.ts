/** The streamed response of one execution: output lines as they come, keepalives when none do, with bounded memory. */
import type { ServerResponse } from "node:http";
import type { KernelOutput } from "./kernel.ts";
import { KERNEL_MESSAGE_MAX_BYTES } from "./limits.ts";
import { END_LINE, KEEPALIVE_LINE, lineOf } from "./lines.ts";

/** The kernel is stopped when its client has this many unread bytes. */
export const OUTPUT_HELD_FROM_BYTES = 4 * 1024 * 1024;
/** Interval between keepalives of a silent stream. */
const KEEPALIVE_MS = 5_000;
/** The kernel continues when no more than this many unread bytes are left. */
const OUTPUT_HELD_TO_BYTES = 1024 * 1024;
/** Output beyond this is dropped: processes may print while the kernel is stopped. */
const OUTPUT_WAITING_MAX_BYTES = KERNEL_MESSAGE_MAX_BYTES + OUTPUT_HELD_FROM_BYTES;

export class ExecutionStream {
  /** Aborted when the client disconnects before the end. */
  readonly gone: AbortSignal;
  readonly #keepalive: Timer;
  #isOver = false;
  #hasFailed = false;
  /** Lines that the connection has not accepted yet. */
  #waiting: string[] = [];
  #waitingBytes = 0;
  #isBlocked = false;
  #isHeld = false;
  #leftOutBytes = 0;
  /** Called with true when too many bytes are unread, and with false when the kernel may continue. */
  onHold: (isHeld: boolean) => void = () => undefined;

  constructor(
    private readonly response: ServerResponse,
    headers: Readonly<Record<string, string>>,
  ) {
    const leaving = new AbortController();
    this.gone = leaving.signal;
    this.#keepalive = setInterval(() => this.#keepAlive(), KEEPALIVE_MS);
    response.on("close", () => {
      clearInterval(this.#keepalive);
      this.#waiting = [];
      this.#waitingBytes = 0;
      if (!this.#isOver) leaving.abort();
    });
    response.on("drain", () => {
      this.#isBlocked = false;
      this.#flush();
    });
    response.on("error", () => response.destroy());
    response.writeHead(200, headers);
    // Send headers at once, because the execution may wait in the queue.
    response.flushHeaders();
  }

  write(output: KernelOutput): void {
    if (this.#isOver || this.gone.aborted) return;
    if (output.kind === "error") {
      if (this.#hasFailed) return;
      this.#hasFailed = true;
    }
    const line = lineOf(output);
    if (this.#waitingBytes + line.length > OUTPUT_WAITING_MAX_BYTES && output.kind !== "error") {
      this.#leftOutBytes += line.length;
      return;
    }
    this.#write(line);
  }

  end(): void {
    if (this.#isOver) return;
    if (this.#leftOutBytes > 0) {
      const text = `[${this.#leftOutBytes} bytes of output are left out: they were not read in time]\n`;
      this.#write(lineOf({ kind: "stderr", text }));
    }
    this.#isOver = true;
    clearInterval(this.#keepalive);
    this.#write(END_LINE);
  }

  #write(line: string): void {
    this.#waiting.push(line);
    this.#waitingBytes += line.length;
    this.#keepalive.refresh();
    this.#flush();
    if (!this.#isHeld && this.#waitingBytes > OUTPUT_HELD_FROM_BYTES) this.#hold(true);
  }

  #flush(): void {
    while (!this.#isBlocked && this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      this.#waitingBytes = 0;
      this.#isBlocked = !this.response.write(lines.join(""));
    }
    if (this.#isHeld && this.#waitingBytes <= OUTPUT_HELD_TO_BYTES) this.#hold(false);
    if (this.#isOver && this.#waiting.length === 0) this.response.end();
  }

  #hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    this.onHold(isHeld);
  }

  #keepAlive(): void {
    if (this.#waiting.length === 0 && !this.#isBlocked) this.response.write(KEEPALIVE_LINE);
  }
}
