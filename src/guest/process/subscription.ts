/**
 * One listener of one process: a bounded queue between the process's output and a client's stream. A full queue blocks
 * the process. A listener that takes nothing for too long is dropped, so that it cannot block the process forever.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../contract/fault.ts";
import type { ProcessEventSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import { OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { OutputPiece } from "./output-envelopes.ts";

export const SUBSCRIBER_BUFFER_MAX_BYTES = 512 * 1024;
/** Cost of each queued chunk besides its bytes, so that a flood of tiny chunks is bounded too. */
const SUBSCRIBER_CHUNK_OVERHEAD_BYTES = 128;
/** How far a source that cannot stop in time may overfill the queue before the listener is dropped. */
const SUBSCRIBER_OVERFILL_MAX_BYTES = 2 * 1024 * 1024;
export const SUBSCRIBER_STALLED_MS = 30_000;

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>;

export interface SubscriptionBounds {
  bufferBytes: number;
  stalledMs: number;
}

export const SUBSCRIPTION_BOUNDS: SubscriptionBounds = {
  bufferBytes: SUBSCRIBER_BUFFER_MAX_BYTES,
  stalledMs: SUBSCRIBER_STALLED_MS,
};

type Queued = { output: OutputPiece } | { event: ProcessEventInit };

function costOf({ bytes }: OutputPiece): number {
  return bytes.length + SUBSCRIBER_CHUNK_OVERHEAD_BYTES;
}

function eventOf(next: Queued): ProcessEventInit {
  if ("event" in next) return next.event;
  const { kind, bytes } = next.output;
  return { event: { case: "data", value: { output: { case: kind, value: bytes } } } };
}

export class Subscription {
  readonly #bounds: SubscriptionBounds;
  readonly #onClose: (subscription: Subscription) => void;
  readonly #queue: Queued[] = [];
  #cost = 0;
  #finished = false;
  #closed = false;
  #failure: Fault | undefined;
  #wakeTaker: (() => void) | undefined;
  /** Set when output is taken separately by `takeOutput`; called when there is some. */
  #onOutput: (() => void) | undefined;
  #lastOutputMs = Number.NEGATIVE_INFINITY;
  #room: PromiseWithResolvers<void> | undefined;
  #stallTimer: Timer | undefined;

  constructor(onClose: (subscription: Subscription) => void, bounds: SubscriptionBounds = SUBSCRIPTION_BOUNDS) {
    this.#onClose = onClose;
    this.#bounds = bounds;
  }

  /** From now on `takeOutput` takes the output and `take` skips it; `onOutput` is called whenever there is some. */
  setOutputApart(onOutput: () => void): void {
    this.#onOutput = onOutput;
    if (this.#hasOutput()) onOutput();
  }

  /** Queues output. The returned promise, if any, settles when there is room for more. */
  offer(pieces: readonly OutputPiece[]): Promise<void> | undefined {
    if (this.#closed) return undefined;
    for (const output of pieces) {
      this.#queue.push({ output });
      this.#cost += costOf(output);
    }
    if (this.#onOutput === undefined) this.#wakeTaker?.();
    else this.#onOutput();
    if (this.#cost <= this.#bounds.bufferBytes) return undefined;
    if (this.#cost > this.#bounds.bufferBytes + SUBSCRIBER_OVERFILL_MAX_BYTES) {
      this.#drop();
      return undefined;
    }
    if (this.#room === undefined) {
      this.#room = Promise.withResolvers<void>();
      this.#watchForStall();
    }
    return this.#room.promise;
  }

  /** Queues the last event, even if the queue is full. */
  finish(event: ProcessEventInit): void {
    if (this.#closed) return;
    this.#queue.push({ event });
    this.#finished = true;
    if (this.#isNextForTake()) this.#wakeTaker?.();
  }

  /** The next event; "idle" if none came in time; "closed" after the last. Throws if this listener was dropped. */
  async take(withinMs: number): Promise<ProcessEventInit | "idle" | "closed"> {
    if (!this.#isNextForTake()) await this.#wait(withinMs);
    if (this.#failure !== undefined) throw this.#failure;
    const next = this.#isNextForTake() ? this.#queue.shift() : undefined;
    if (next === undefined) return this.#closed || (this.#finished && this.#queue.length === 0) ? "closed" : "idle";
    if ("output" in next) this.#noteTaken(costOf(next.output));
    return eventOf(next);
  }

  /** Takes waiting output, up to OUTPUT_TOGETHER_MAX_BYTES, to be sent in one write. */
  takeOutput(): OutputPiece[] {
    const pieces: OutputPiece[] = [];
    let bytes = 0;
    let cost = 0;
    for (;;) {
      const next = this.#queue[pieces.length];
      if (next === undefined || "event" in next) break;
      if (bytes > 0 && bytes + next.output.bytes.length > OUTPUT_TOGETHER_MAX_BYTES) break;
      pieces.push(next.output);
      bytes += next.output.bytes.length;
      cost += costOf(next.output);
    }
    if (pieces.length === 0) return pieces;
    this.#queue.splice(0, pieces.length);
    this.#lastOutputMs = performance.now();
    this.#noteTaken(cost);
    if (this.#isNextForTake()) this.#wakeTaker?.();
    return pieces;
  }

  #hasOutput(): boolean {
    const next = this.#queue[0];
    return next !== undefined && "output" in next;
  }

  /** Whether `take` can return at once, with an event or because none will come. */
  #isNextForTake(): boolean {
    if (this.#closed || this.#queue.length === 0) return this.#closed || this.#finished;
    return this.#onOutput === undefined || !this.#hasOutput();
  }

  /** Ends listening from the client's side. Safe to call more than once. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#queue.length = 0;
    this.#cost = 0;
    this.#giveRoom();
    this.#wakeTaker?.();
    this.#onClose(this);
  }

  async #wait(withinMs: number): Promise<void> {
    const woken = Promise.withResolvers<void>();
    this.#wakeTaker = woken.resolve;
    let timer: Timer;
    const look = () => {
      // Output taken by `takeOutput` counts as activity.
      const leftMs = this.#lastOutputMs + withinMs - performance.now();
      if (leftMs < 1) woken.resolve();
      else timer = setTimeout(look, leftMs);
    };
    timer = setTimeout(look, withinMs);
    try {
      await woken.promise;
    } finally {
      clearTimeout(timer);
      this.#wakeTaker = undefined;
    }
  }

  #noteTaken(cost: number): void {
    this.#cost -= cost;
    if (this.#room === undefined) return;
    if (this.#cost <= this.#bounds.bufferBytes) this.#giveRoom();
    else this.#watchForStall();
  }

  #giveRoom(): void {
    clearTimeout(this.#stallTimer);
    this.#stallTimer = undefined;
    this.#room?.resolve();
    this.#room = undefined;
  }

  #watchForStall(): void {
    clearTimeout(this.#stallTimer);
    this.#stallTimer = setTimeout(() => this.#drop(), this.#bounds.stalledMs);
  }

  #drop(): void {
    this.#failure = refuse(
      "resource_exhausted",
      `this listener took no output for ${this.#bounds.stalledMs} ms while its buffer was full, so it was dropped; ` +
        "connect to the process again and read faster",
    );
    this.close();
  }
}
