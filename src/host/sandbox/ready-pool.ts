/**
 * Sandboxes that were booted before anybody asked, so that a create is only a hand-over. They have their final id from
 * the start and hold no secret of anybody; one is given out once and never comes back.
 */

import { described, type Log, stderrLog } from "../../work/log.ts";
import type { SandboxKind } from "../host.ts";
import { READY_REFILL_DELAY_MS } from "../limits.ts";

const RETRY_AFTER_FAILURE_MS = 5_000;

interface Shelf {
  kind: SandboxKind;
  ready: string[];
  booting: number;
  timer: Timer | undefined;
}

export class ReadyPool {
  readonly #shelves = new Map<string, Shelf>();
  readonly #background = new Set<Promise<void>>();
  #closed = false;

  constructor(
    readonly perKind: number,
    readonly boot: (kind: SandboxKind) => Promise<string>,
    /** Like `boot`, with time to spare. */
    readonly bootAhead: (kind: SandboxKind) => Promise<string>,
    readonly discard: (id: string) => Promise<void>,
    readonly isUsable: (id: string) => boolean,
    readonly log: Log = stderrLog,
  ) {}

  /** Keeps these kinds ready and lets go of the others. */
  keep(kinds: readonly SandboxKind[]): void {
    const wanted = new Map(kinds.map((kind) => [shelfName(kind), kind]));
    for (const [name, shelf] of this.#shelves) {
      if (wanted.has(name)) continue;
      this.#shelves.delete(name);
      this.#empty(shelf);
    }
    for (const [name, kind] of wanted) {
      if (!this.#shelves.has(name)) this.#shelves.set(name, { kind, ready: [], booting: 0, timer: undefined });
    }
    for (const shelf of this.#shelves.values()) this.#refillSoon(shelf, 0);
  }

  /** A running sandbox of this kind: one that is ready, or a new one. */
  async take(kind: SandboxKind): Promise<string> {
    const shelf = this.#shelves.get(shelfName(kind));
    for (let id = shelf?.ready.shift(); id !== undefined; id = shelf?.ready.shift()) {
      if (shelf !== undefined) this.#refillSoon(shelf, READY_REFILL_DELAY_MS);
      if (this.isUsable(id)) return id;
    }
    return await this.boot(kind);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const shelf of this.#shelves.values()) this.#empty(shelf);
    this.#shelves.clear();
    while (this.#background.size > 0) await Promise.allSettled(this.#background);
  }

  /** A little later, because whoever just took one is about to use the processor. Each take puts it off again. */
  #refillSoon(shelf: Shelf, delayMs: number): void {
    if (this.#closed || this.perKind === 0) return;
    clearTimeout(shelf.timer);
    shelf.timer = setTimeout(() => this.#refill(shelf), delayMs);
  }

  #refill(shelf: Shelf): void {
    if (this.#closed || shelf.ready.length + shelf.booting >= this.perKind) return;
    shelf.booting++;
    const work = this.bootAhead(shelf.kind)
      .then((id) => {
        const current = this.#shelves.get(shelfName(shelf.kind));
        if (this.#closed || current !== shelf) return this.discard(id);
        shelf.ready.push(id);
      })
      .then(
        () => 0,
        (error) => {
          this.log.write({ level: "error", event: "sandbox could not be booted ahead", error: described(error) });
          return RETRY_AFTER_FAILURE_MS;
        },
      )
      .then((delayMs) => {
        shelf.booting--;
        if (this.#shelves.get(shelfName(shelf.kind)) === shelf) this.#refillSoon(shelf, delayMs);
      });
    this.#background.add(work);
    work.finally(() => this.#background.delete(work));
  }

  #empty(shelf: Shelf): void {
    clearTimeout(shelf.timer);
    for (const id of shelf.ready.splice(0)) {
      const work = this.discard(id).catch((error) => {
        const event = "ready sandbox could not be discarded";
        this.log.write({ level: "error", event, sandbox: id, error: described(error) });
      });
      this.#background.add(work);
      work.finally(() => this.#background.delete(work));
    }
  }
}

/** Kinds that differ in anything the boot depends on do not share a shelf. */
function shelfName(kind: SandboxKind): string {
  return JSON.stringify([kind.image, kind.cpuCount, kind.memoryMB, kind.diskSizeMB]);
}
