/** All listeners of one process. Each receives every chunk read while it listens, and nothing from before. */
import { discard } from "../system/garbage.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { OutputKind, OutputPiece } from "./output-envelopes.ts";
import { type ProcessEventInit, Subscription, type SubscriptionBounds } from "./subscription.ts";

export const SUBSCRIBERS_PER_PROCESS_MAX = 128;

export class Audience {
  readonly #listeners = new Set<Subscription>();
  readonly #bounds: SubscriptionBounds;

  constructor(bounds: SubscriptionBounds) {
    this.#bounds = bounds;
  }

  subscribe(): Subscription {
    if (this.#listeners.size >= SUBSCRIBERS_PER_PROCESS_MAX) {
      throw refuse(
        "resource_exhausted",
        `a process has at most ${SUBSCRIBERS_PER_PROCESS_MAX} listeners; close one first`,
      );
    }
    const listener = new Subscription((closed) => this.#listeners.delete(closed), this.#bounds);
    this.#listeners.add(listener);
    return listener;
  }

  /**
   * Gives output to every listener in pieces of at most `pieceBytes`; the listeners own the chunk from then on. Wait
   * for the returned promise before the next read.
   */
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
