/**
 * The ready pool: sandboxes started before a client asks, so that a create is only a hand-over. They are booted or
 * restored from the checkpoint of a template, have their final id from the start, and hold no tenant's secrets. Each is
 * given out once and never returns. Nothing runs in them while they wait.
 *
 * The size follows the operator's minimum, demand (demand.ts) and room (shares.ts, memory-room.ts). The pool starts
 * sandboxes when clients leave the processors idle: a client's start and its first commands go first. It never decides
 * which requests are allowed.
 */
import { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { Fault } from "../../contract/fault.ts";
import type { KeptReady } from "../../contract/internal/host.ts";
import { Demand } from "./demand.ts";
import { byTemplate, type PoolReport } from "./pool-report.ts";
import { type Room, setTargets } from "./shares.ts";
import { floorsOf, keyOf, PendingStart, type StartSpec, TemplatePool } from "./template-pool.ts";

/** How long the pool pauses after a failed start. */
export const READY_RETRY_MS = 5_000;
/** How long after a create refilling waits: at least, and at most while the client's commands keep the machine busy. */
export const READY_REFILL_DELAY_MS = 100;
export const READY_USE_MS = 2_000;
/** While creates follow one another, none is made until this part is left. */
const READY_LOW_PART = 0.25;
/** How often the pool checks its room. */
export const READY_CHECK_MS = 1_000;
/** Concurrent starts, at most one per processor, and concurrent discards. */
const READY_STARTS_AT_ONCE_MAX = 4;
const READY_DISCARDS_AT_ONCE = 4;
/** Maximum number of templates whose demand is tracked. */
const READY_TEMPLATES_MAX = 256;

export interface ReadyPoolParts {
  /** Starts a sandbox that no client waits for. */
  startAhead(wanted: StartSpec): Promise<string>;
  /** Freezes the sandbox until `thaw`, if anything but its guest can run in it. */
  stop(id: string): Promise<void>;
  /** False: the sandbox has ended. */
  thaw(id: string): boolean;
  discard(id: string): Promise<void>;
  bytesOf(id: string): number;
  /** False: the pool keeps only the operator's minimum. */
  followsDemand: boolean;
  /** For all ready sandboxes: their number and their memory. */
  room(ready: number, heldBytes: number): Room;
  /** Whether more tasks are runnable than the processors can run soon. */
  isBusyNow(): boolean;
  processors: number;
  clock: Clock;
  log: Log;
  report(now: PoolReport): void;
}

export class ReadyPool {
  readonly #pools = new Map<string, TemplatePool>();
  readonly #background: Background;
  readonly #discards = new Semaphore(READY_DISCARDS_AT_ONCE);
  /** Counts of all creates, also of templates without ready sandboxes. */
  readonly #counts = { hits: 0, joined: 0, misses: 0 };
  /** Running starts that a client waits for. */
  #served = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Start of the current series of creates. */
  #burstAt = Number.NEGATIVE_INFINITY;
  #next: { at: number; timer: Timer } | undefined;
  #discarding = 0;
  /** The machine is short of memory, so the pool holds nothing. */
  #isSuspended = false;
  #closed = false;

  constructor(private readonly parts: ReadyPoolParts) {
    this.#background = new Background(parts.log);
  }

  /** Sets the minimum for these templates; others are kept only for demand. */
  keep(kept: readonly KeptReady[]): void {
    const floors = floorsOf(kept);
    for (const [key, pool] of this.#pools) if (!floors.has(key)) pool.floor = 0;
    for (const [key, each] of floors) {
      const pool = this.#pools.get(key) ?? new TemplatePool(each);
      this.#pools.set(key, pool);
      if (pool.floor !== each.count) pool.isUnfit = false;
      pool.floor = each.count;
    }
    this.#checkSafely();
  }

  /** Gives up all ready sandboxes, also the minimum, until it is called with false. Returns whether any is left. */
  setSuspended(isSuspended: boolean): boolean {
    const wasSuspended = this.#isSuspended;
    this.#isSuspended = isSuspended;
    if (isSuspended !== wasSuspended) this.#checkSafely();
    return (
      this.#discarding > 0 || [...this.#pools.values()].some(({ ready, making }) => ready.length + making.size > 0)
    );
  }

  lost(id: string): void {
    for (const { ready } of this.#pools.values()) {
      const at = ready.findIndex((each) => each.id === id);
      if (at >= 0) ready.splice(at, 1);
    }
    this.#checkIn(READY_REFILL_DELAY_MS);
  }

  /** Drops the demand for templates that can no longer be requested. */
  forget(isGone: (beginning: StartSpec) => boolean): void {
    const gone = [...this.#pools.values()].filter(isGone);
    for (const pool of gone) pool.demand = new Demand();
    if (gone.length > 0) this.#checkIn(0);
  }

  /** A ready sandbox, or one that is already starting. Undefined: the caller starts its own. */
  async take(wanted: StartSpec & { owner?: string | undefined }): Promise<string | undefined> {
    const now = this.parts.clock.now();
    if (now - this.#askedAt > READY_REFILL_DELAY_MS) this.#burstAt = now;
    this.#askedAt = now;
    const pool = this.#poolFor(wanted);
    // Starts without an owner, such as copies of an internal checkpoint, never come from the pool and are not counted.
    const counted = pool !== undefined ? [this.#counts, pool.counts] : wanted.owner !== undefined ? [this.#counts] : [];
    const ready = pool && this.#takeReady(pool);
    if (ready !== undefined) {
      for (const counts of counted) counts.hits++;
      return ready;
    }
    const joined = await pool?.unclaimed[0]?.claim();
    if (joined !== undefined) {
      for (const counts of counted) counts.joined++;
      return joined;
    }
    for (const counts of counted) counts.misses++;
    return undefined;
  }

  /** To be held during a start that a client waits for; the pool starts less meanwhile. */
  trackClientStart(): Disposable {
    this.#served++;
    return {
      [Symbol.dispose]: () => {
        this.#served--;
        // Checking the room takes a millisecond, so skip it when nothing could start.
        if (this.#served < this.#placesMax) this.#checkIn(0);
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#next?.timer.cancel();
    for (const pool of this.#pools.values()) this.#trim(pool, 0);
    this.#pools.clear();
    await this.#background.settled();
  }

  #poolFor(wanted: StartSpec & { owner?: string | undefined }): TemplatePool | undefined {
    const key = keyOf(wanted);
    const { owner } = wanted;
    if (owner === undefined || !this.parts.followsDemand || this.#closed) return this.#pools.get(key);
    const pool = this.#pools.get(key) ?? this.#newPool(wanted);
    if (pool === undefined) return undefined;
    pool.demand.note(owner, this.parts.clock.now());
    // Keeps the map ordered by last request.
    this.#pools.delete(key);
    this.#pools.set(key, pool);
    this.#checkIn(READY_CHECK_MS);
    return pool;
  }

  /** Replaces the least recently requested empty pool of a template when there are too many. */
  #newPool(wanted: StartSpec): TemplatePool | undefined {
    if (this.#pools.size >= READY_TEMPLATES_MAX) {
      const idle = [...this.#pools].find(([, { floor, ready, making }]) => floor + ready.length + making.size === 0);
      if (idle === undefined) return undefined;
      this.#pools.delete(idle[0]);
    }
    return new TemplatePool(wanted);
  }

  #takeReady(pool: TemplatePool): string | undefined {
    for (let ready = pool.ready.shift(); ready !== undefined; ready = pool.ready.shift()) {
      this.#checkIn(READY_REFILL_DELAY_MS);
      if (this.parts.thaw(ready.id)) return ready.id;
    }
    return undefined;
  }

  #checkIn(delayMs: number): void {
    const { clock } = this.parts;
    const at = clock.now() + delayMs;
    if (this.#closed || (this.#next !== undefined && this.#next.at <= at)) return;
    this.#next?.timer.cancel();
    this.#next = { at, timer: clock.after(delayMs, () => this.#checkSafely()) };
  }

  /** Reading the room may fail temporarily, so a failure is retried. */
  #checkSafely(): void {
    try {
      this.#check();
    } catch (error) {
      const event = "the ready pool could not be checked";
      this.parts.log.write({ level: "error", event, error: described(error) });
      this.#checkIn(READY_RETRY_MS);
    }
  }

  /** Computes the targets, discards the surplus, and starts what is missing. */
  #check(): void {
    this.#next?.timer.cancel();
    this.#next = undefined;
    if (this.#closed) return;
    const now = this.parts.clock.now();
    const pools = [...this.#pools.values()];
    const ready = pools.reduce((sum, pool) => sum + pool.ready.length, 0);
    const held = pools.reduce((sum, pool) => sum + pool.heldBytes, 0);
    if (this.#isSuspended) for (const pool of pools) pool.target = 0;
    else setTargets(pools.toReversed(), this.parts.room(ready, held), now);
    for (const [key, pool] of this.#pools) {
      this.#trim(pool, pool.target);
      if (pool.missing > 0 && pool.retryAt > now) this.#checkIn(pool.retryAt - now);
      if (pool.floor === 0 && pool.making.size === 0 && pool.demand.isOver(now)) this.#pools.delete(key);
    }
    for (let pool = this.#neediest(now); pool !== undefined; pool = this.#neediest(now)) this.#start(pool);
    this.parts.report(this.report());
    // Room and demand change by themselves.
    if ([...this.#pools.values()].some(({ demand }) => !demand.isOver(now))) this.#checkIn(READY_CHECK_MS);
  }

  #trim(pool: TemplatePool, count: number): void {
    for (const { id } of pool.ready.splice(count)) this.#discard(id);
  }

  /** The template's pool to start next: one below its minimum, then the emptiest. */
  #neediest(now: number): TemplatePool | undefined {
    const pools = [...this.#pools.values()];
    const making = pools.reduce((sum, pool) => sum + pool.making.size, 0);
    const places = this.#placesMax - this.#served - making;
    if (places < 1) return undefined;
    const fullness = ({ size, floor, target }: TemplatePool) => (size < floor ? size / floor - 1 : size / target);
    const needy = pools.filter((pool) => pool.missing > 0 && pool.retryAt <= now);
    const urgent = needy.filter((pool) => !this.#canWait(pool, now));
    if (urgent.length < needy.length) this.#checkIn(READY_REFILL_DELAY_MS);
    return urgent.sort((one, other) => fullness(one) - fullness(other))[0];
  }

  /** The first commands of a burst's clients need the processors now, unless few sandboxes are left. */
  #canWait({ size, target }: TemplatePool, now: number): boolean {
    if (now - this.#burstAt < READY_REFILL_DELAY_MS) return true;
    const sinceMs = now - this.#askedAt;
    if (size < this.#placesMax || sinceMs >= READY_USE_MS) return false;
    return sinceMs < READY_REFILL_DELAY_MS ? size >= target * READY_LOW_PART : this.parts.isBusyNow();
  }

  /** Limit for starts of the pool and starts that clients wait for, together. */
  get #placesMax(): number {
    return Math.min(this.parts.processors, READY_STARTS_AT_ONCE_MAX);
  }

  /** The new sandbox belongs to the create that has claimed it, or waits in the pool. */
  #start(pool: TemplatePool): void {
    const event = "sandbox could not be made ready";
    const making = new PendingStart();
    pool.making.add(making);
    this.#background.run(event, async () => {
      try {
        const id = await this.parts.startAhead(pool);
        if (!making.resolve(id)) await this.#addReady(pool, making, id);
      } catch (error) {
        this.#failed(pool, event, error);
      } finally {
        making.resolve(undefined);
        pool.making.delete(making);
        this.#checkSafely();
      }
    });
  }

  async #addReady(pool: TemplatePool, making: PendingStart, id: string): Promise<void> {
    const bytes = this.parts.bytesOf(id);
    const isWanted = () => !this.#closed && this.#pools.get(keyOf(pool)) === pool && pool.ready.length < pool.target;
    try {
      if (isWanted()) await this.parts.stop(id);
    } catch (error) {
      if (!making.resolve(id)) this.#discard(id);
      throw error;
    }
    if (making.isClaimed) {
      this.parts.thaw(id);
      making.resolve(id);
    } else if (isWanted()) pool.put({ id, bytes });
    else this.#discard(id);
  }

  #failed(pool: TemplatePool, event: string, error: unknown): void {
    this.parts.log.write({ level: "error", event, error: described(error) });
    pool.retryAt = this.parts.clock.now() + READY_RETRY_MS;
    // A checkpoint that does not fit this machine, or is gone, is not retried.
    if (pool.checkpoint !== null && error instanceof Fault && error.status < 500) pool.isUnfit = true;
  }

  #discard(id: string): void {
    const event = "ready sandbox could not be discarded";
    this.#discarding++;
    this.#background.run(event, async () => {
      using _permit = await this.#discards.acquire();
      await this.parts.discard(id).catch((error: unknown) => {
        this.parts.log.write({ level: "error", event, sandbox: id, error: described(error) });
      });
      this.#discarding--;
    });
  }

  report(): PoolReport {
    const parts = [...this.#pools.values()].map((pool) => pool.report());
    const short = this.#isSuspended && { isShortOfMemory: true as const };
    return { templates: byTemplate(parts), ...this.#counts, ...short };
  }
}
