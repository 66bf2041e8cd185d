/**
 * One listener of one process: a bounded queue between the process's output and a client's stream. When it is full the
 * process is held back; a listener that takes nothing for too long is dropped, so that it cannot hold the process for
 * ever.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../contract/fault.ts";
import type { ProcessEventSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import {
  OUTPUT_TOGETHER_MAX_BYTES,
  SUBSCRIBER_BUFFER_MAX_BYTES,
  SUBSCRIBER_CHUNK_OVERHEAD_BYTES,
  SUBSCRIBER_OVERFILL_MAX_BYTES,
  SUBSCRIBER_STALLED_MS,
} from "../limits.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { OutputPiece } from "./output-envelopes.ts";

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>;

export interface SubscriptionBounds {
  bufferBytes: number;
  stalledMs: number;
}

export const SUBSCRIPTION_BOUNDS: SubscriptionBounds = {
  bufferBytes: SUBSCRIBER_BUFFER_MAX_BYTES,
  stalledMs: SUBSCRIBER_STALLED_MS,
};

interface Queued {
  event: ProcessEventInit;
  cost: number;
}

function outputOf({ event }: ProcessEventInit): OutputPiece | undefined {
  const output = event?.case === "data" ? event.value.output : undefined;
  return output?.case === undefined || output.value === undefined
    ? undefined
    : { kind: output.case, bytes: output.value };
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
  #room: PromiseWithResolvers<void> | undefined;
  #stallTimer: Timer | undefined;

  constructor(onClose: (subscription: Subscription) => void, bounds: SubscriptionBounds = SUBSCRIPTION_BOUNDS) {
    this.#onClose = onClose;
    this.#bounds = bounds;
  }

  /** Queues output. The returned promise, if any, settles when there is room for more. */
  offer(event: ProcessEventInit, byteLength: number): Promise<void> | undefined {
    if (this.#closed) return undefined;
    const cost = byteLength + SUBSCRIBER_CHUNK_OVERHEAD_BYTES;
    this.#queue.push({ event, cost });
    this.#cost += cost;
    this.#wakeTaker?.();
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

  /** The last event. It is always taken, whether there is room or not. */
  finish(event: ProcessEventInit): void {
    if (this.#closed) return;
    this.#queue.push({ event, cost: 0 });
    this.#finished = true;
    this.#wakeTaker?.();
  }

  /** The next event; "idle" when none came in time; "closed" after the last. Throws when this listener was dropped. */
  async take(withinMs: number): Promise<ProcessEventInit | "idle" | "closed"> {
    if (this.#queue.length === 0 && !this.#finished && !this.#closed) await this.#wait(withinMs);
    if (this.#failure !== undefined) throw this.#failure;
    const next = this.#queue.shift();
    if (next === undefined) return this.#closed || this.#finished ? "closed" : "idle";
    this.#cost -= next.cost;
    this.#noteTaken();
    return next.event;
  }

  /**
   * The output that an event carries, with what else waits already, up to some pieces: those go out together. Nothing
   * when the event is another one.
   */
  takeOutput(first: ProcessEventInit): OutputPiece[] {
    const pieces: OutputPiece[] = [];
    let bytes = 0;
    for (let piece = outputOf(first); piece !== undefined; piece = this.#nextOutput(bytes)) {
      pieces.push(piece);
      bytes += piece.bytes.length;
    }
    return pieces;
  }

  #nextOutput(taken: number): OutputPiece | undefined {
    const next = this.#queue[0];
    const piece = next === undefined ? undefined : outputOf(next.event);
    if (next === undefined || piece === undefined) return undefined;
    if (taken + piece.bytes.length > OUTPUT_TOGETHER_MAX_BYTES) return undefined;
    this.#queue.shift();
    this.#cost -= next.cost;
    this.#noteTaken();
    return piece;
  }

  /** Ends the listening from the client's side. Safe to call more than once. */
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
    const timer = setTimeout(woken.resolve, withinMs);
    this.#wakeTaker = woken.resolve;
    try {
      await woken.promise;
    } finally {
      clearTimeout(timer);
      this.#wakeTaker = undefined;
    }
  }

  #noteTaken(): void {
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
