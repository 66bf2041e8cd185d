/**
 * How long the last guest took to be there. Each look for one goes all the way to its sandbox: who knows about when it
 * will be there looks a few times, also when so much is going on that it takes ten times as long as usual.
 */
import { GUEST_LOOK_FIRST_MS } from "../limits.ts";

/** A guest that starts is looked for after so long at most, also when they all take longer at the moment. */
const GUEST_LOOK_FIRST_MAX_MS = 40;

/**
 * The next may be faster. As one that was there at the first look may have been there long before, what is usual falls
 * by as much with each.
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
