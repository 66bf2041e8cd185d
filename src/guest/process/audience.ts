/**
 * All listeners of one process. Each gets every chunk that is read while it listens, and none gets what came before.
 */
import { SUBSCRIBERS_PER_PROCESS_MAX } from "../limits.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { OutputKind } from "./output-envelopes.ts";
import { type ProcessEventInit, Subscription, type SubscriptionBounds } from "./subscription.ts";

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

  /** Hands output to everybody, in pieces of at most `pieceBytes`. Wait for the returned promise before reading on. */
  publish(kind: OutputKind, chunk: Uint8Array, pieceBytes: number): Promise<unknown> | undefined {
    if (this.#listeners.size === 0) return undefined;
    const full = new Set<Promise<void>>();
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      const piece = chunk.subarray(at, at + pieceBytes);
      const event: ProcessEventInit = {
        event: { case: "data", value: { output: { case: kind, value: piece } } },
      };
      for (const listener of this.#listeners) {
        const room = listener.offer(event, piece.length);
        if (room !== undefined) full.add(room);
      }
    }
    return full.size === 0 ? undefined : Promise.all(full);
  }

  finish(event: ProcessEventInit): void {
    for (const listener of this.#listeners) listener.finish(event);
  }
}
