/** One process of a client, from its first output to the report of its end, whatever connections do. */
import { SerialQueue } from "../../base/serial-queue.ts";
import { systemCode } from "../../base/system-code.ts";
import type { Fault } from "../../contract/fault.ts";
import { refuse } from "../system/rpc-fault.ts";
import { type EndEvent, endEvent } from "./outcome.ts";
import type { OutputSink, ProcessIo } from "./process-io.ts";
import type { ProcessTexts } from "./start-texts.ts";
import { SUBSCRIPTION_BOUNDS, type Subscription, Subscriptions } from "./subscription.ts";

const OUTPUT_CHUNK_MAX_BYTES = 32 * 1024;
const TERMINAL_CHUNK_MAX_BYTES = 16 * 1024;
export const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;
/**
 * How long output is still read after a signalled process has ended while a descendant holds its pipes open. The time
 * is extended while unread output remains, up to OUTPUT_AFTER_SIGNAL_MAX_BYTES.
 */
export const OUTPUT_DRAIN_AFTER_SIGNAL_MS = 250;
/** Maximum output read after a signalled process has ended. A pipe holds less, so more must come from a descendant. */
const OUTPUT_AFTER_SIGNAL_MAX_BYTES = 4 * 1024 * 1024;

type InputKind = "stdin" | "pty";

export class GuestProcess {
  readonly config: ProcessTexts | undefined;
  readonly tag: string | undefined;
  readonly cwd: string | undefined;
  /** Bytes read from and written to the process so far. */
  readonly byteCounts = { stdin: 0, stdout: 0, stderr: 0, pty: 0 };
  readonly ended: Promise<EndEvent>;
  readonly #io: ProcessIo;
  readonly #subscriptions: Subscriptions;
  readonly #signalled = Promise.withResolvers<void>();
  #hasExited = false;
  readonly #input = new SerialQueue();
  #inputWaitingBytes = 0;

  constructor(
    spawn: (sink: OutputSink) => ProcessIo,
    options: {
      config?: ProcessTexts | undefined;
      tag?: string | undefined;
      cwd?: string | undefined;
      lifetimeMs?: number | undefined;
    } = {},
    bounds = SUBSCRIPTION_BOUNDS,
  ) {
    this.#subscriptions = new Subscriptions(bounds);
    this.config = options.config;
    this.tag = options.tag;
    this.cwd = options.cwd;
    this.#io = spawn((kind, chunk) => {
      this.byteCounts[kind] += chunk.length;
      return this.#subscriptions.publish(
        kind,
        chunk,
        kind === "pty" ? TERMINAL_CHUNK_MAX_BYTES : OUTPUT_CHUNK_MAX_BYTES,
      );
    });
    this.ended = this.#watchToTheEnd(options.lifetimeMs);
  }

  get pid(): number {
    return this.#io.pid;
  }

  subscribe(): Subscription {
    return this.#subscriptions.subscribe();
  }

  /** Writes in call order; settles when the pipe or terminal of the process has taken the bytes. */
  async send(kind: InputKind, bytes: Uint8Array): Promise<void> {
    this.#requireKind(kind);
    if (this.#inputWaitingBytes > 0 && this.#inputWaitingBytes + bytes.length > INPUT_WAITING_MAX_BYTES) {
      throw refuse(
        "resource_exhausted",
        `${this.#inputWaitingBytes} bytes of input wait for this process to read them, and at most ` +
          `${INPUT_WAITING_MAX_BYTES} may; send more when it has read`,
      );
    }
    this.#inputWaitingBytes += bytes.length;
    try {
      await this.#input.run(() => this.#io.write(bytes));
      this.byteCounts.stdin += bytes.length;
    } catch (thrown) {
      throw inputFault(thrown);
    } finally {
      this.#inputWaitingBytes -= bytes.length;
    }
  }

  async closeStdin(): Promise<void> {
    await this.#input.run(() => this.#io.closeInput());
  }

  resize(cols: number, rows: number): void {
    this.#io.resize(cols, rows);
  }

  /** Signals this process only. Its end is then reported even if a descendant keeps its output open. */
  signal(signal: "SIGKILL" | "SIGTERM"): void {
    if (!this.#hasExited) this.#io.kill(signal);
    this.#signalled.resolve();
  }

  async #watchToTheEnd(lifetimeMs: number | undefined): Promise<EndEvent> {
    const lifetime = lifetimeMs === undefined ? undefined : setTimeout(() => this.signal("SIGKILL"), lifetimeMs);
    const exit = await this.#io.exited;
    this.#hasExited = true;
    const givenUp = this.#signalled.promise.then(() => this.#outputSoFar());
    await Promise.race([this.#io.outputEnded, givenUp]);
    clearTimeout(lifetime);
    // Queued behind pending input, which a descendant may still be reading.
    void this.#input.run(() => this.#io.release());
    const end = endEvent(exit.code, exit.signal);
    this.#subscriptions.finish({ event: { case: "end", value: end } });
    return end;
  }

  /** Settles when the process's own output was delivered; a descendant may continue to write. */
  async #outputSoFar(): Promise<void> {
    const { stdout, stderr, pty } = this.byteCounts;
    const isTooMuch = () =>
      this.byteCounts.stdout + this.byteCounts.stderr + this.byteCounts.pty - stdout - stderr - pty >
      OUTPUT_AFTER_SIGNAL_MAX_BYTES;
    do await Bun.sleep(OUTPUT_DRAIN_AFTER_SIGNAL_MS);
    while (this.#io.hasOutput() && !isTooMuch());
  }

  #requireKind(kind: InputKind): void {
    if (kind === "stdin" && this.#io.kind === "terminal") {
      throw refuse("internal", `process ${this.pid} runs in a terminal: send its input as pty, not as stdin`);
    }
    if (kind === "pty" && this.#io.kind === "pipes") {
      throw refuse("internal", `process ${this.pid} has no terminal: send its input as stdin, not as pty`);
    }
  }
}

function inputFault(thrown: unknown): Fault | unknown {
  if (systemCode(thrown) !== "EPIPE") return thrown;
  return refuse("internal", "the process closed its stdin or ended before the input was written", thrown);
}
