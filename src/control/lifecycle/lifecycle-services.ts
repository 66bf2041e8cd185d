/**
 * What the parts of a sandbox's life share: the rooms they work with, and the steps that several of them end with.
 */

import type { Host } from "../../host/host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import { Background } from "../../work/background.ts";
import type { Clock } from "../../work/clock.ts";
import { described, type Log } from "../../work/log.ts";
import type { Ids } from "../access/ids.ts";
import { EXPIRY_RETRY_MS } from "../limits.ts";
import { Changes } from "./changes.ts";
import { createDiscards, type Discards } from "./checkpoint-removal.ts";
import { createExpiry, type Expiry } from "./expiry.ts";
import { type Journal, SILENT_JOURNAL } from "./lifecycle-listener.ts";
import { Slots } from "./quota.ts";
import { Presence } from "./reachability.ts";
import { createTakedown, type Takedown } from "./removal.ts";

export interface LifecycleRooms {
  store: Store;
  host: Host;
  clock: Clock;
  ids: Ids;
  log: Log;
  journal?: Journal;
}

export class Life {
  readonly store: Store;
  readonly host: Host;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly journal: Journal;
  readonly background: Background;
  readonly presence = new Presence();
  readonly changes: Changes;
  readonly slots: Slots;
  readonly takedown: Takedown;
  readonly discards: Discards;
  readonly expiry: Expiry;
  readonly #closing = Promise.withResolvers<void>();
  #closed = false;

  /** `onDue` gets what expiry has moved to `pausing`. */
  constructor(rooms: LifecycleRooms, onDue: (sandboxes: Sandbox[]) => void) {
    this.store = rooms.store;
    this.host = rooms.host;
    this.clock = rooms.clock;
    this.ids = rooms.ids;
    this.log = rooms.log;
    this.journal = rooms.journal ?? SILENT_JOURNAL;
    this.background = new Background(rooms.log);
    this.changes = new Changes(rooms.clock);
    this.slots = new Slots(rooms);
    this.takedown = createTakedown(this);
    this.discards = createDiscards(this);
    this.expiry = createExpiry({
      ...rooms,
      background: this.background,
      onTaken: (taken) => {
        const due = taken.filter(({ state }) => state === "pausing");
        for (const { id } of due) this.presence.hide(id);
        onDue(due);
        for (const sandbox of taken) if (sandbox.state === "killing") this.endSoon(sandbox, "its timeout ended");
      },
    });
  }

  /** What runs again, or still: its row has just been changed to `running`, or to `killing` because somebody wants that. */
  async backInRunning(sandbox: Sandbox): Promise<void> {
    if (sandbox.state === "killing") return this.endSoon(sandbox, "killed");
    this.presence.show(sandbox.id);
    this.expiry.noteEnd(sandbox.endAt);
    this.changes.note(sandbox.id);
    // It may have died while somebody had it in hand, when the host's word of it meant nothing to us.
    if (this.host.endpoint(sandbox.id) === undefined) await this.lost(sandbox);
  }

  /**
   * Who has just changed a row to `killing` calls this, or `endSoon`, and nobody else. Resolves when the sandbox is gone; when
   * it throws, that is tried again.
   */
  async end(sandbox: Sandbox, note: string): Promise<void> {
    this.#over(sandbox, note);
    await this.takedown.finish(sandbox);
  }

  /** As `end`, for those who have nobody to tell how it went. */
  endSoon(sandbox: Sandbox, note: string): void {
    this.#over(sandbox, note);
    this.takedown.enqueue([sandbox]);
  }

  /** The host says that this run's first process is dead. True: this call ended it. */
  async lost(sandbox: Sandbox): Promise<boolean> {
    const ended = await this.store.sandboxes.endRunning(sandbox);
    if (ended === undefined) return false;
    this.log.write({ level: "warn", event: "sandbox lost", sandbox: sandbox.id });
    this.endSoon(ended, "its first process ended");
    return true;
  }

  /**
   * Writes down what has been done, however long the store is away: nothing may stay between two states for a moment's
   * failure. Gives up only when the server stops; the next start sorts it out.
   */
  async insist<T>(what: string, record: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await record();
      } catch (error) {
        this.log.write({ level: "error", event: `${what} could not be recorded`, error: described(error) });
        if (this.#closed) throw error;
        await this.#pause();
        if (this.#closed) throw error;
      }
    }
  }

  /** From now on nothing is waited for that may never come. */
  beginClose(): void {
    this.#closed = true;
    this.#closing.resolve();
    this.changes.close();
  }

  async close(): Promise<void> {
    this.beginClose();
    this.expiry.close();
    this.takedown.close();
    this.discards.close();
    await this.background.settled();
  }

  async #pause(): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.clock.after(EXPIRY_RETRY_MS, over.resolve);
    await Promise.race([over.promise, this.#closing.promise]);
    timer.cancel();
  }

  #over(sandbox: Sandbox, note: string): void {
    this.presence.end(sandbox.id);
    this.changes.note(sandbox.id);
    this.journal.tell("killed", sandbox, note);
  }
}
