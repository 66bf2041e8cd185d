/**
 * The listeners of one process. Each has a bounded queue between the process's output and a client's stream, receives
 * every chunk read while it listens, and nothing from before. A full queue blocks the process. A listener that takes
 * nothing for too long is dropped, so that it cannot block the process forever.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../contract/fault.ts";
import type { ProcessEventSchema } from "../../contract/runtime/wire/process/process_pb.ts";
import { OUTPUT_TOGETHER_MAX_BYTES } from "../limits.ts";
import { discard } from "../system/garbage.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { OutputKind, OutputPiece } from "./output-envelopes.ts";

export const SUBSCRIBERS_PER_PROCESS_MAX = 128;
export const SUBSCRIBER_BUFFER_MAX_BYTES = 512 * 1024;
/** Cost of each queued chunk besides its bytes, so that a flood of tiny chunks is bounded too. */
const SUBSCRIBER_CHUNK_OVERHEAD_BYTES = 128;
/** How far a source that cannot stop in time may overfill the queue before the listener is dropped. */
const SUBSCRIBER_OVERFILL_MAX_BYTES = 2 * 1024 * 1024;
export const SUBSCRIBER_STALLED_MS = 30_000;

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>;

interface SubscriptionBounds {
  bufferBytes: number;
  stalledMs: number;
}

export const SUBSCRIPTION_BOUNDS: SubscriptionBounds = {
  bufferBytes: SUBSCRIBER_BUFFER_MAX_BYTES,
  stalledMs: SUBSCRIBER_STALLED_MS,
};

function costOf({ bytes }: OutputPiece): number {
  return bytes.length + SUBSCRIBER_CHUNK_OVERHEAD_BYTES;
}

export class Subscription {
  /** Called whenever there is output to take. */
  onOutput: () => void = () => undefined;
  readonly #output: OutputPiece[] = [];
  #cost = 0;
  #end: ProcessEventInit | undefined;
  #isClosed = false;
  #failure: Fault | undefined;
  #wakeTaker: (() => void) | undefined;
  #lastOutputMs = Number.NEGATIVE_INFINITY;
  #room: PromiseWithResolvers<void> | undefined;
  #stallTimer: Timer | undefined;

  constructor(
    private readonly onClose: (subscription: Subscription) => void,
    private readonly bounds: SubscriptionBounds,
  ) {}

  /** Queues output. The returned promise, if any, settles when there is room for more. */
  offer(pieces: readonly OutputPiece[]): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    for (const piece of pieces) {
      this.#output.push(piece);
      this.#cost += costOf(piece);
    }
    this.onOutput();
    if (this.#cost <= this.bounds.bufferBytes) return undefined;
    if (this.#cost > this.bounds.bufferBytes + SUBSCRIBER_OVERFILL_MAX_BYTES) {
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
  finish(end: ProcessEventInit): void {
    this.#end = end;
    if (this.#output.length === 0) this.#wakeTaker?.();
  }

  /** Takes waiting output, up to OUTPUT_TOGETHER_MAX_BYTES, to be sent in one write. */
  takeOutput(): OutputPiece[] {
    let bytes = 0;
    let count = 0;
    for (const { bytes: piece } of this.#output) {
      if (count > 0 && bytes + piece.length > OUTPUT_TOGETHER_MAX_BYTES) break;
      bytes += piece.length;
      count++;
    }
    if (count === 0) return [];
    const pieces = this.#output.splice(0, count);
    this.#lastOutputMs = performance.now();
    this.#noteTaken(bytes + count * SUBSCRIBER_CHUNK_OVERHEAD_BYTES);
    if (this.#output.length === 0 && this.#end !== undefined) this.#wakeTaker?.();
    return pieces;
  }

  /** The last event, once all output is taken; "idle" if none was; "closed" if the client left. Throws if dropped. */
  async ended(withinMs: number): Promise<ProcessEventInit | "idle" | "closed"> {
    const isOver = () => this.#isClosed || (this.#end !== undefined && this.#output.length === 0);
    if (!isOver()) await this.#wait(withinMs);
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosed || !isOver()) return this.#isClosed ? "closed" : "idle";
    return this.#end ?? "idle";
  }

  /** Ends listening from the client's side. Safe to call more than once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#output.length = 0;
    this.#cost = 0;
    this.#giveRoom();
    this.#wakeTaker?.();
    this.onClose(this);
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
    if (this.#cost <= this.bounds.bufferBytes) this.#giveRoom();
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
    this.#stallTimer = setTimeout(() => this.#drop(), this.bounds.stalledMs);
  }

  #drop(): void {
    this.#failure = refuse(
      "resource_exhausted",
      `this listener took no output for ${this.bounds.stalledMs} ms while its buffer was full, so it was dropped; ` +
        "connect to the process again and read faster",
    );
    this.close();
  }
}

export class Subscriptions {
  readonly #listeners = new Set<Subscription>();

  constructor(private readonly bounds: SubscriptionBounds) {}

  subscribe(): Subscription {
    if (this.#listeners.size >= SUBSCRIBERS_PER_PROCESS_MAX) {
      throw refuse(
        "resource_exhausted",
        `a process has at most ${SUBSCRIBERS_PER_PROCESS_MAX} listeners; close one first`,
      );
    }
    const listener = new Subscription((closed) => this.#listeners.delete(closed), this.bounds);
    this.#listeners.add(listener);
    return listener;
  }

  /** Gives output to every listener, which then owns the chunk. Wait for the promise before the next read. */
  publish(kind: OutputKind, chunk: Uint8Array, pieceBytes: number): Promise<unknown> | undefined {
    const listeners = this.#listeners;
    if (listeners.size === 0) {
      discard(chunk);
      return undefined;
    }
    const pieces: OutputPiece[] = [];
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      pieces.push({ kind, bytes: chunk.subarray(at, at + pieceBytes) });
    }
    const last = pieces.at(-1);
    if (last !== undefined && listeners.size === 1) last.whole = chunk;
    const full: Promise<void>[] = [];
    for (const listener of listeners) {
      const room = listener.offer(pieces);
      if (room !== undefined) full.push(room);
    }
    return full.length > 1 ? Promise.all(full) : full[0];
  }

  finish(event: ProcessEventInit): void {
    for (const listener of this.#listeners) listener.finish(event);
  }
}
