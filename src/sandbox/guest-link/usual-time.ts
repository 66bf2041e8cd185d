/**
 * Estimates when a starting guest will listen, from how long the last one took. Each poll connects into the sandbox;
 * with an estimate a few polls are enough, even when starts take ten times as long as usual.
 */
import { GUEST_LOOK_FIRST_MS } from "../limits.ts";

/** The first poll happens after at most this long, however slow starts are. */
const GUEST_LOOK_FIRST_MAX_MS = 40;

/**
 * The next guest may be faster. A guest found at the first poll may have been ready long before, so the estimate
 * shrinks by this factor each time.
 */
const SHARE = 0.7;

export class UsualTime {
  #lastMs = 0;

  get firstLookMs(): number {
    return Math.min(Math.max(this.#lastMs * SHARE, GUEST_LOOK_FIRST_MS), GUEST_LOOK_FIRST_MAX_MS);
  }

  note(ms: number): void {
    this.#lastMs = ms;
  }
}
