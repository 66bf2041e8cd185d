/**
 * Ends or pauses sandboxes on time. One timer is armed for the earliest end; when it fires, one statement takes all
 * sandboxes that are due, so a thousand ends in the same second change state together. The rows are authoritative: a
 * timer that fires too early finds nothing and is armed again.
 */
import type { Timer } from "../../../base/clock.ts";
import { described } from "../../../base/log.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { EXPIRY_SLEEP_MAX_MS } from "../../limits.ts";
import type { Parts } from "../../parts.ts";
import { isLogged, retryDelayMs } from "../../store-retry.ts";

export class Expiry {
  #armedFor = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;
  #closed = false;
  /** Times of failed attempts. The store may have made their changes nevertheless. */
  readonly #inDoubt = new Set<number>();
  /** Failed attempts in a row. */
  #failures = 0;

  /** `onTaken` gets the sandboxes that expiry has moved to `killing` or `pausing`. */
  constructor(
    private readonly parts: Pick<Parts, "store" | "clock" | "log" | "background">,
    private readonly onTaken: (sandboxes: Sandbox[]) => void,
  ) {}

  /**
   * A running sandbox now ends at this time; call it after the row has changed. The timer only moves to an earlier
   * time: a later end is found when it fires.
   */
  noteEnd(at: number): void {
    const { clock, background } = this.parts;
    if (this.#closed || at >= this.#armedFor) return;
    this.#timer?.cancel();
    this.#armedFor = at;
    const delayMs = Math.min(Math.max(0, at - clock.now()), EXPIRY_SLEEP_MAX_MS);
    this.#timer = clock.after(delayMs, () => background.run("expiry failed", () => this.#takeDue()));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #takeDue(): Promise<void> {
    const { store, clock, log } = this.parts;
    this.#armedFor = Number.POSITIVE_INFINITY;
    try {
      const taken = await this.#take();
      if (taken.length > 0) this.onTaken(taken);
      if (this.#inDoubt.size > 0) this.noteEnd(clock.now());
      const next = await store.sandboxes.earliestEnd();
      if (next !== undefined) this.noteEnd(next);
      this.#failures = 0;
    } catch (error) {
      const failures = ++this.#failures;
      const event = "expiry could not reach the store and will try again";
      if (isLogged(failures)) log.write({ level: "error", event, failures, error: described(error) });
      this.noteEnd(clock.now() + retryDelayMs(failures));
    }
  }

  /** Repeats a failed attempt for the same time, because that time identifies the rows that it took. */
  async #take(): Promise<Sandbox[]> {
    const { store, clock } = this.parts;
    const [again] = this.#inDoubt;
    const now = again ?? clock.now();
    this.#inDoubt.delete(now);
    try {
      const taken = await store.sandboxes.takeDue(now);
      return again === undefined ? taken : await this.#takenFor(now);
    } catch (error) {
      this.#inDoubt.add(now);
      throw error;
    }
  }

  /** Sandboxes that attempts for this time have taken. */
  async #takenFor(now: number): Promise<Sandbox[]> {
    const { inState } = this.parts.store.sandboxes;
    const [pausing, killing] = [await inState("pausing"), await inState("killing")];
    return [
      ...pausing.filter(({ checkpoint, executionId }) => checkpoint === `${executionId}-${now}`),
      ...killing.filter(({ killWanted, endAt }) => !killWanted && endAt <= now),
    ];
  }
}
