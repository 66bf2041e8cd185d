/**
 * How many bytes this process holds for peers that do not take them, in one budget for all. A sandbox may hold as much
 * as half of what is left of it: one alone gets a third of the budget, and its share shrinks while others hold much.
 * Above its share, each of its connections may hold only little.
 */
import { EDGE_HELD_MIN_BYTES } from "../limits.ts";

/** Of all requests and answers of a process that wait for peers that do not take them. */
export const EDGE_HELD_MAX_BYTES = 96 * 1024 * 1024;

let total = 0;

/** Of one sandbox. */
export class HeldBytes {
  #bytes = 0;

  /** More are held, or with a number below zero fewer. */
  add(bytes: number): void {
    this.#bytes += bytes;
    total += bytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** It has no more of its share. */
  get isSpent(): boolean {
    return this.#bytes >= (EDGE_HELD_MAX_BYTES - total) / 2;
  }

  /** So much each of its connections may hold now, and never more than `most`. */
  limit(most: number): number {
    return this.isSpent ? EDGE_HELD_MIN_BYTES : most;
  }
}

/** Of what the edge and the management interface answer. */
export const OWN_HELD_BYTES = new HeldBytes();
