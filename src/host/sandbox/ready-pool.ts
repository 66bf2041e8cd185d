/**
 * Sandboxes that were started before anybody asked, so that a create is only a hand-over: booted, or made from the
 * checkpoint of a template. They have their final id from the start and hold no secret of anybody; one is given out
 * once and never comes back.
 */
import { Fault } from "../../contract/fault.ts";
import { Background } from "../../work/background.ts";
import { described, type Log, stderrLog } from "../../work/log.ts";
import type { KeptReady, SandboxKind } from "../host.ts";
import { READY_REFILL_DELAY_MS, READY_RETRY_MS } from "../limits.ts";

/** What sandboxes on the shelf begin with. */
interface Beginning {
  kind: SandboxKind;
  checkpoint: string | null;
}

interface Stock extends Beginning {
  /** How many there should be. */
  count: number;
  ready: string[];
  booting: number;
  timer: Timer | undefined;
}

export class ReadyPool {
  readonly #stocks = new Map<string, Stock>();
  readonly #background: Background;
  #closed = false;

  constructor(
    /** Nobody waits for it. */
    readonly startAhead: (wanted: Beginning) => Promise<string>,
    readonly discard: (id: string) => Promise<void>,
    readonly isUsable: (id: string) => boolean,
    readonly log: Log = stderrLog,
  ) {
    this.#background = new Background(log);
  }

  /** Keeps so many of these ready and lets go of the others. */
  keep(kept: readonly KeptReady[]): void {
    const wanted = new Map<string, KeptReady>();
    for (const each of kept) {
      if (each.count === 0) continue;
      // Two templates may be alike: each needs its own.
      const alike = wanted.get(keyOf(each))?.count ?? 0;
      wanted.set(keyOf(each), { ...each, count: each.count + alike });
    }
    for (const [name, stock] of this.#stocks) {
      if (wanted.has(name)) continue;
      this.#stocks.delete(name);
      this.#empty(stock);
    }
    for (const [name, each] of wanted) {
      const stock = this.#stocks.get(name);
      if (stock === undefined) this.#stocks.set(name, { ...each, ready: [], booting: 0, timer: undefined });
      else this.#resize(stock, each.count);
    }
    for (const stock of this.#stocks.values()) this.#refillSoon(stock, 0);
  }

  /** A running sandbox that begins with this; undefined if none is ready. */
  take(wanted: Beginning): string | undefined {
    const stock = this.#stocks.get(keyOf(wanted));
    for (let id = stock?.ready.shift(); id !== undefined; id = stock?.ready.shift()) {
      if (stock !== undefined) this.#refillSoon(stock, READY_REFILL_DELAY_MS);
      if (this.isUsable(id)) return id;
    }
    return undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const stock of this.#stocks.values()) this.#empty(stock);
    this.#stocks.clear();
    await this.#background.settled();
  }

  /** A little later, because whoever just took one is about to use the processor. Each take puts it off again. */
  #refillSoon(stock: Stock, delayMs: number): void {
    if (this.#closed) return;
    clearTimeout(stock.timer);
    stock.timer = setTimeout(() => this.#refill(stock), delayMs);
  }

  #refill(stock: Stock): void {
    if (this.#closed || stock.ready.length + stock.booting >= stock.count) return;
    stock.booting++;
    this.#background.run("ready sandboxes could not be refilled", async () => {
      const delayMs = await this.#bootInto(stock);
      stock.booting--;
      if (this.#isKept(stock)) this.#refillSoon(stock, delayMs);
    });
  }

  /** Answers how long to wait before the next. */
  async #bootInto(stock: Stock): Promise<number> {
    try {
      const id = await this.startAhead(stock);
      if (this.#closed || !this.#isKept(stock)) await this.discard(id);
      else if (stock.ready.length >= stock.count) await this.discard(id);
      else stock.ready.push(id);
      return 0;
    } catch (error) {
      this.log.write({ level: "error", event: "sandbox could not be booted ahead", error: described(error) });
      // A checkpoint that does not fit this machine, or is gone, never will: it is not asked for again.
      if (stock.checkpoint !== null && error instanceof Fault && error.status < 500) stock.count = 0;
      return READY_RETRY_MS;
    }
  }

  #isKept(stock: Stock): boolean {
    return this.#stocks.get(keyOf(stock)) === stock;
  }

  #empty(stock: Stock): void {
    clearTimeout(stock.timer);
    this.#resize(stock, 0);
  }

  #resize(stock: Stock, count: number): void {
    stock.count = count;
    for (const id of stock.ready.splice(count)) {
      const event = "ready sandbox could not be discarded";
      const complain = (error: unknown) =>
        this.log.write({ level: "error", event, sandbox: id, error: described(error) });
      this.#background.run(event, () => this.discard(id).catch(complain));
    }
  }
}

/** What differs in anything that the start depends on, the wall first of all, does not share what is ready. */
function keyOf({ kind, checkpoint }: Beginning): string {
  const { wall = null, image, cpuCount, memoryMB, diskSizeMB } = kind;
  return JSON.stringify([wall, image, cpuCount, memoryMB, diskSizeMB, checkpoint]);
}
