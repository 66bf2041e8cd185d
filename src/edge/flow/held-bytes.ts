/**
 * Budget for bytes that this process holds for slow peers, shared by all sandboxes. A sandbox may hold up to half of
 * the free budget: alone it gets a third of the whole, and its share shrinks while others hold much. Above its share,
 * each of its connections may hold only a little.
 */
import { EDGE_HELD_MIN_BYTES } from "../limits.ts";

/** Maximum bytes of all requests and responses in a process that wait for slow peers. */
export const EDGE_HELD_MAX_BYTES = 96 * 1024 * 1024;

let total = 0;

/** Bytes held for one sandbox. */
export class HeldBytes {
  #bytes = 0;

  /** Adds held bytes; a negative number releases them. */
  add(bytes: number): void {
    this.#bytes += bytes;
    total += bytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the sandbox has used up its share. */
  get isSpent(): boolean {
    return this.#bytes >= (EDGE_HELD_MAX_BYTES - total) / 2;
  }

  /** How much each of its connections may hold now, at most `most`. */
  limit(max: number): number {
    return this.isSpent ? EDGE_HELD_MIN_BYTES : max;
  }
}

/** Held by responses of the edge itself and of the management API. */
export const OWN_HELD_BYTES = new HeldBytes();
