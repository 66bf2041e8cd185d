/**
 * Sandboxes that were started before anybody asked, so that a create is only a hand-over: booted, or made from the
 * checkpoint of a template. They have their final id from the start and hold no secret of anybody; one is given out
 * once and never comes back. Nothing in them runs while they wait.
 *
 * How many there are follows what is asked for (demand.ts) and what room there is (shares.ts, memory-room.ts). They are
 * made when clients leave the processors alone: what a client waits for goes first.
 */

import { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import { Gate } from "../../base/gate.ts";
import { described, type Log } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { KeptReady } from "../../contract/internal/host.ts";
import { byTemplate, type PoolReport } from "./pool-report.ts";
import { type Room, shareOut } from "./shares.ts";
import { type Beginning, floorsOf, keyOf, Making, type Ready, Stock } from "./stock.ts";

/** How long the ready pool rests after a start ahead that failed, and after the first that is taken in a while. */
export const READY_RETRY_MS = 5_000;
export const READY_REFILL_DELAY_MS = 100;
/** Nobody has taken any for so long: whoever takes the next one is about to use it. */
const READY_QUIET_MS = 250;
/** While they are taken one after another, none is made until this part is left. */
const READY_LOW_PART = 0.25;
/** And so long after that none as long as others have much to do: whoever took one is about to use it. */
export const READY_USE_MS = 2_000;
/** How often it is looked whether there is still room for them. */
export const READY_LOOK_MS = 1_000;
/** Made ready at the same time, but no more than there are processors; and given back. */
const READY_STARTS_AT_ONCE_MAX = 4;
const READY_DISCARDS_AT_ONCE = 4;
/** Templates of which it is known how they are asked for. */
const READY_STOCKS_MAX = 256;

export interface ReadyPoolParts {
  /** Nobody waits for it. */
  startAhead(wanted: Beginning): Promise<string>;
  /** Nothing in it goes on until it is let go. */
  stop(id: string): Promise<void>;
  /** False: it has ended. */
  letGo(id: string): boolean;
  discard(id: string): Promise<void>;
  /** What it takes of the memory. */
  bytesOf(id: string): number;
  /** False: what the operator has set is kept, and nothing else. */
  followsDemand: boolean;
  /** For all ready ones, of which there are so many, with so much memory. */
  room(ready: number, heldBytes: number): Room;
  /** Whether more is to be done at this moment than there are processors for. */
  isBusyNow(): boolean;
  processors: number;
  clock: Clock;
  log: Log;
  report(now: PoolReport): void;
}

export class ReadyPool {
  readonly #parts: ReadyPoolParts;
  readonly #stocks = new Map<string, Stock>();
  readonly #background: Background;
  readonly #discards = new Gate(READY_DISCARDS_AT_ONCE);
  /** Of all that was asked for, also where nothing was kept. */
  readonly #counts = { hits: 0, joined: 0, misses: 0 };
  /** Starts that a client waits for. */
  #served = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #takenAt = Number.NEGATIVE_INFINITY;
  /** Whoever took one after a while is about to use the processor: nothing is made until then. */
  #restsUntil = 0;
  #next: { at: number; timer: Timer } | undefined;
  #closed = false;

  constructor(parts: ReadyPoolParts) {
    this.#parts = parts;
    this.#background = new Background(parts.log);
  }

  /** Keeps so many of these in any case, and of others none but for demand. */
  keep(kept: readonly KeptReady[]): void {
    const floors = floorsOf(kept);
    for (const [key, stock] of this.#stocks) if (!floors.has(key)) stock.floor = 0;
    for (const [key, each] of floors) {
      const stock = this.#stocks.get(key) ?? new Stock(each);
      this.#stocks.set(key, stock);
      if (stock.floor !== each.count) stock.isUnfit = false;
      stock.floor = each.count;
    }
    this.#lookSafely();
  }

  /** It has ended. */
  lost(id: string): void {
    for (const { ready } of this.#stocks.values()) {
      const at = ready.findIndex((each) => each.id === id);
      if (at >= 0) ready.splice(at, 1);
    }
    this.#lookIn(READY_REFILL_DELAY_MS);
  }

  /** Nobody can ask for these any more. */
  forget(isGone: (beginning: Beginning) => boolean): void {
    const gone = [...this.#stocks.values()].filter(isGone);
    for (const stock of gone) stock.forgetDemand();
    if (gone.length > 0) this.#lookIn(0);
  }

  /** A running sandbox that begins with this: a ready one, one that is about to be, or what `make` makes. */
  async serve(wanted: Beginning & { owner?: string | undefined }, make: () => Promise<string>): Promise<string> {
    this.#askedAt = this.#parts.clock.now();
    const stock = this.#asked(wanted);
    // What is nobody's, such as the checkpoint that copies are made from, could not have been kept.
    const counted =
      stock !== undefined ? [this.#counts, stock.counts] : wanted.owner !== undefined ? [this.#counts] : [];
    const ready = stock && this.#take(stock);
    if (ready !== undefined) {
      for (const counts of counted) counts.hits++;
      return ready;
    }
    const joined = await stock?.unclaimed[0]?.claim();
    if (joined !== undefined) {
      for (const counts of counted) counts.joined++;
      return joined;
    }
    for (const counts of counted) counts.misses++;
    return await this.during(make);
  }

  /** Work that a client waits for: nothing else is begun in its way. */
  async during<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#served++;
    try {
      return await work();
    } finally {
      this.#served--;
      // To see what room there is takes a millisecond: not when nothing could be begun.
      if (this.#served < this.#placesMax) this.#lookIn(0);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#next?.timer.cancel();
    for (const stock of this.#stocks.values()) this.#trim(stock, 0);
    this.#stocks.clear();
    await this.#background.settled();
  }

  #asked(wanted: Beginning & { owner?: string | undefined }): Stock | undefined {
    const key = keyOf(wanted);
    const { owner } = wanted;
    if (owner === undefined || !this.#parts.followsDemand || this.#closed) return this.#stocks.get(key);
    const stock = this.#stocks.get(key) ?? this.#newStock(wanted);
    if (stock === undefined) return undefined;
    stock.demand.note(owner, this.#parts.clock.now());
    // Whoever was asked for last comes last.
    this.#stocks.delete(key);
    this.#stocks.set(key, stock);
    this.#lookIn(READY_LOOK_MS);
    return stock;
  }

  /** In the place of the one that was asked for least lately, where there are many. */
  #newStock(wanted: Beginning): Stock | undefined {
    if (this.#stocks.size >= READY_STOCKS_MAX) {
      const idle = [...this.#stocks].find(([, { floor, ready, making }]) => floor + ready.length + making.size === 0);
      if (idle === undefined) return undefined;
      this.#stocks.delete(idle[0]);
    }
    return new Stock(wanted);
  }

  #take(stock: Stock): string | undefined {
    for (let ready = stock.ready.shift(); ready !== undefined; ready = stock.ready.shift()) {
      const now = this.#parts.clock.now();
      if (now - this.#takenAt > READY_QUIET_MS) this.#restsUntil = now + READY_REFILL_DELAY_MS;
      this.#takenAt = now;
      this.#lookIn(READY_REFILL_DELAY_MS);
      if (this.#parts.letGo(ready.id)) return ready.id;
    }
    return undefined;
  }

  #lookIn(delayMs: number): void {
    const { clock } = this.#parts;
    const at = clock.now() + delayMs;
    if (this.#closed || (this.#next !== undefined && this.#next.at <= at)) return;
    this.#next?.timer.cancel();
    this.#next = { at, timer: clock.after(delayMs, () => this.#lookSafely()) };
  }

  /** What room there is may not be seen for once: it is looked again. */
  #lookSafely(): void {
    try {
      this.#look();
    } catch (error) {
      const event = "what is to be kept ready could not be seen";
      this.#parts.log.write({ level: "error", event, error: described(error) });
      this.#lookIn(READY_RETRY_MS);
    }
  }

  /** Sees how many there should be, gives back what is too much, and begins what is missing. */
  #look(): void {
    this.#next?.timer.cancel();
    this.#next = undefined;
    if (this.#closed) return;
    const now = this.#parts.clock.now();
    this.#aim(now);
    for (const [key, stock] of this.#stocks) {
      this.#trim(stock, stock.target);
      if (stock.missing > 0 && stock.retryAt > now) this.#lookIn(stock.retryAt - now);
      if (stock.floor === 0 && stock.making.size === 0 && stock.demand.isOver(now)) this.#stocks.delete(key);
    }
    if (now < this.#restsUntil) this.#lookIn(this.#restsUntil - now);
    else for (let stock = this.#neediest(now); stock !== undefined; stock = this.#neediest(now)) this.#start(stock);
    this.#parts.report(this.#report());
    // What room there is changes by itself, and so does what was asked for.
    if ([...this.#stocks.values()].some(({ demand }) => !demand.isOver(now))) this.#lookIn(READY_LOOK_MS);
  }

  #aim(now: number): void {
    const stocks = [...this.#stocks.values()];
    const ready = stocks.reduce((sum, stock) => sum + stock.ready.length, 0);
    const held = stocks.reduce((sum, stock) => sum + stock.heldBytes, 0);
    const claims = stocks.map((stock) => stock.claim(now));
    for (const [{ stock }, count] of shareOut(claims, this.#parts.room(ready, held))) stock.target = count;
  }

  #trim(stock: Stock, count: number): void {
    for (const { id } of stock.ready.splice(count)) this.#discard(id);
  }

  /** Which to begin with next: one that has less than it should in any case, then the emptiest. */
  #neediest(now: number): Stock | undefined {
    const stocks = [...this.#stocks.values()];
    const making = stocks.reduce((sum, stock) => sum + stock.making.size, 0);
    const places = this.#placesMax - this.#served - making;
    if (places < 1) return undefined;
    const fullness = ({ size, floor, target }: Stock) => (size < floor ? size / floor - 1 : size / target);
    const needy = stocks.filter((stock) => stock.missing > 0 && stock.retryAt <= now);
    const urgent = needy.filter((stock) => !this.#canWait(stock, now));
    if (urgent.length < needy.length) this.#lookIn(READY_REFILL_DELAY_MS);
    return urgent.sort((one, other) => fullness(one) - fullness(other))[0];
  }

  /** Whether enough are left for those who ask, who need the processors now. */
  #canWait({ size, target }: Stock, now: number): boolean {
    const sinceMs = now - this.#askedAt;
    if (size < this.#placesMax || sinceMs >= READY_USE_MS) return false;
    return sinceMs < READY_REFILL_DELAY_MS ? size >= target * READY_LOW_PART : this.#parts.isBusyNow();
  }

  /** What is made ahead and what clients wait for, together. */
  get #placesMax(): number {
    return Math.min(this.#parts.processors, READY_STARTS_AT_ONCE_MAX);
  }

  /** What is made is whoever's has claimed it, or goes in the ready pool. */
  #start(stock: Stock): void {
    const event = "sandbox could not be booted ahead";
    const making = new Making();
    stock.making.add(making);
    this.#background.run(event, async () => {
      try {
        const id = await this.#parts.startAhead(stock);
        if (!making.give(id)) await this.#shelve(stock, making, { id, bytes: this.#parts.bytesOf(id) });
      } catch (error) {
        this.#failed(stock, event, error);
      } finally {
        making.give(undefined);
        stock.making.delete(making);
        this.#lookSafely();
      }
    });
  }

  async #shelve(stock: Stock, making: Making, made: Ready): Promise<void> {
    const { id } = made;
    const isWanted = () =>
      !this.#closed && this.#stocks.get(keyOf(stock)) === stock && stock.ready.length < stock.target;
    try {
      if (isWanted()) await this.#parts.stop(id);
    } catch (error) {
      if (!making.give(id)) this.#discard(id);
      throw error;
    }
    if (making.isClaimed) {
      this.#parts.letGo(id);
      making.give(id);
    } else if (isWanted()) stock.put(made);
    else this.#discard(id);
  }

  #failed(stock: Stock, event: string, error: unknown): void {
    this.#parts.log.write({ level: "error", event, error: described(error) });
    stock.retryAt = this.#parts.clock.now() + READY_RETRY_MS;
    // A checkpoint that does not fit this machine, or is gone, never will: it is not asked for again.
    if (stock.checkpoint !== null && error instanceof Fault && error.status < 500) stock.isUnfit = true;
  }

  #discard(id: string): void {
    const event = "ready sandbox could not be discarded";
    this.#background.run(event, async () => {
      using _place = await this.#discards.enter();
      await this.#parts.discard(id).catch((error: unknown) => {
        this.#parts.log.write({ level: "error", event, sandbox: id, error: described(error) });
      });
    });
  }

  #report(): PoolReport {
    const parts = [...this.#stocks.values()].map((stock) => stock.report());
    return { templates: byTemplate(parts), ...this.#counts };
  }
}
