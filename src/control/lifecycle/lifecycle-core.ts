/**
 * What the parts of a sandbox's life share: the services they work with, and the steps that several of them end with.
 */

import { Background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { QuietPeriod } from "../../base/quiet-period.ts";
import { Fault } from "../../contract/fault.ts";
import type { Host } from "../../contract/internal/host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import type { Ids } from "../access/ids.ts";
import { EXPIRY_RETRY_MS } from "../limits.ts";
import { Changes } from "./changes.ts";
import type { PrivateRangesOf } from "./egress.ts";
import { type LifecycleListener, NO_LISTENER } from "./lifecycle-listener.ts";
import { Quota } from "./quota.ts";
import { Reachability } from "./routes/reachability.ts";
import { createExpiry, type Expiry } from "./timers/expiry.ts";
import { type CheckpointRemoval, createCheckpointRemoval } from "./transitions/checkpoint-removal.ts";
import { SandboxRemoval } from "./transitions/sandbox-removal.ts";
import { StartRepair } from "./transitions/start-repair.ts";

/** While sandboxes are being resumed, the removal of what others were resumed from is put off, at most for so long. */
const REMOVAL_PUT_OFF_MAX_MS = 5_000;

export interface LifecycleServices {
  store: Store;
  host: Host;
  clock: Clock;
  ids: Ids;
  log: Log;
  listener?: LifecycleListener;
  /** Absent: none are open. */
  privateRangesOf?: PrivateRangesOf;
  /** Told when a build has got another checkpoint. */
  checkpointReplaced?: () => void;
}

export class LifecycleCore {
  readonly store: Store;
  readonly host: Host;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly listener: LifecycleListener;
  readonly privateRangesOf: PrivateRangesOf;
  readonly background: Background;
  /** Nobody waits for a sandbox to be resumed. */
  readonly quietPeriod: QuietPeriod;
  readonly reachability = new Reachability();
  readonly changes: Changes;
  readonly quota: Quota;
  readonly removal: SandboxRemoval;
  readonly checkpointRemoval: CheckpointRemoval;
  readonly startRepair: StartRepair;
  readonly expiry: Expiry;
  /** Sandboxes of which a checkpoint is being made while they go on. */
  readonly captured = new Set<string>();
  readonly #closing = Promise.withResolvers<void>();
  #closed = false;

  /** `onDue` gets what expiry has moved to `pausing`. */
  constructor(services: LifecycleServices, onDue: (sandboxes: Sandbox[]) => void) {
    this.store = services.store;
    this.host = services.host;
    this.clock = services.clock;
    this.ids = services.ids;
    this.log = services.log;
    this.listener = services.listener ?? NO_LISTENER;
    this.privateRangesOf = services.privateRangesOf ?? (async () => []);
    this.background = new Background(services.log);
    this.quietPeriod = new QuietPeriod(services.clock, REMOVAL_PUT_OFF_MAX_MS);
    this.changes = new Changes(services.clock);
    this.removal = new SandboxRemoval(this);
    this.quota = new Quota({ ...services, runsOn: (teamId) => this.removal.runningOf(teamId) });
    this.checkpointRemoval = createCheckpointRemoval(this);
    this.startRepair = new StartRepair({
      ...services,
      privateRangesOf: this.privateRangesOf,
      discard: (checkpoints) => this.discard(checkpoints),
      replaced: () => services.checkpointReplaced?.(),
    });
    this.expiry = createExpiry({
      ...services,
      background: this.background,
      onTaken: (taken) => {
        const due = taken.filter(({ state }) => state === "pausing");
        for (const { id } of due) this.reachability.hide(id);
        onDue(due);
        for (const sandbox of taken) if (sandbox.state === "killing") this.endSoon(sandbox, "its timeout ended");
      },
    });
  }

  /** Removes, in its own time, those of these checkpoints that no build is started from. */
  discard(checkpoints: readonly string[]): void {
    if (checkpoints.length === 0) return;
    this.background.run("checkpoints could not be discarded; the next start removes them", async () => {
      const unused: string[] = [];
      for (const name of checkpoints) if (!(await this.store.buildsInUse.startsFrom(name))) unused.push(name);
      this.checkpointRemoval.enqueue(unused);
    });
  }

  /** Resolves once no background work is under way. */
  async settled(): Promise<void> {
    await this.startRepair.settled();
    await this.background.settled();
  }

  /**
   * What runs again, or still: its row has just been changed to `running`, or to `killing` because somebody wants that.
   */
  async backInRunning(sandbox: Sandbox): Promise<void> {
    if (sandbox.state === "killing") return this.endSoon(sandbox, "killed");
    // After a failure of the store somebody may have it in hand again, who tells all of this.
    if (sandbox.state !== "running") return;
    this.reachability.show(sandbox.id);
    this.expiry.noteEnd(sandbox.endAt);
    this.changes.note(sandbox.id);
    // It may have died while somebody had it in hand, when the host's word of it meant nothing to us.
    if (!this.reachability.isUp(sandbox.id)) await this.lost(sandbox);
  }

  /**
   * Who has just changed a row to `killing` calls this, or `endSoon`, and nobody else. Resolves when the sandbox is
   * gone; when it throws, that is tried again.
   */
  async end(sandbox: Sandbox, note: string): Promise<void> {
    // After a failure of the store somebody may have found it so before who did it heard of it.
    if (!this.removal.isUnderWay(sandbox.id)) this.#over(sandbox, note);
    await this.removal.finish(sandbox);
  }

  /** As `end`, for those who have nobody to tell how it went, or who found it so after a failure of the store. */
  endSoon(sandbox: Sandbox, note: string): void {
    if (this.removal.isUnderWay(sandbox.id)) return;
    this.#over(sandbox, note);
    this.removal.enqueue([sandbox]);
  }

  /** The host says that this run is over, or is not known to it any more. True: this call ended it. */
  async lost(sandbox: Sandbox, reason = "its first process ended"): Promise<boolean> {
    const end = () => this.store.sandboxes.endRunning(sandbox);
    const ended = await this.begin(sandbox.id, end, async (row) => {
      if (row.state === "killing") this.endSoon(row, reason);
    });
    if (ended === undefined) return false;
    this.log.write({ level: "warn", event: "sandbox lost", sandbox: sandbox.id, reason });
    this.endSoon(ended, reason);
    return true;
  }

  /**
   * Writes down what has been done, however long the store is away: nothing may stay between two states for a moment's
   * failure. Gives up only when the server stops; the next start sorts it out.
   */
  async untilRecorded<T>(what: string, record: () => Promise<T>): Promise<T> {
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

  /**
   * As `untilRecorded`, of a change that takes this run out of its state. One that failed may have been made all the
   * same: the next try finds the run in another state then, and answers the row as it is.
   */
  untilChanged(
    what: string,
    from: Sandbox,
    change: (run: Sandbox) => Promise<Sandbox | undefined>,
  ): Promise<Sandbox | undefined> {
    let isTried = false;
    return this.untilRecorded(what, async () => {
      const isDoubtful = isTried;
      isTried = true;
      const changed = await change(from);
      if (changed !== undefined || !isDoubtful) return changed;
      const row = await this.store.sandboxes.byId(from.id);
      return row?.executionId === from.executionId ? row : undefined;
    });
  }

  /**
   * A change by which somebody takes a sandbox in hand. One that failed may have been made all the same, and then
   * nobody has it in hand: a moment later, `abandoned` gets the row as it is.
   */
  async begin(
    id: string,
    change: () => Promise<Sandbox | undefined>,
    abandoned: (row: Sandbox) => Promise<unknown>,
  ): Promise<Sandbox | undefined> {
    try {
      return await change();
    } catch (error) {
      // What is refused was not made.
      if (error instanceof Fault) throw error;
      this.background.run("a change that failed could not be looked into", async () => {
        await this.#pause();
        const row = await this.untilRecorded("a change that failed", () => this.store.sandboxes.byId(id));
        if (row !== undefined) await abandoned(row);
      });
      throw error;
    }
  }

  /** As `kill` of the store. */
  beginKill(sandbox: Sandbox): Promise<Sandbox | undefined> {
    const { sandboxes } = this.store;
    const kill = async () => {
      const ended = sandbox.state === "running" ? await sandboxes.killRunning(sandbox) : undefined;
      return ended ?? (await sandboxes.kill(sandbox));
    };
    return this.begin(sandbox.id, kill, async (row) => {
      if (row.state === "killing") this.endSoon(row, "killed");
    });
  }

  /** From now on nothing is waited for that may never come. */
  beginClose(): void {
    this.#closed = true;
    this.#closing.resolve();
    this.changes.close();
  }

  async close(): Promise<void> {
    this.beginClose();
    this.startRepair.close();
    this.expiry.close();
    this.removal.close();
    this.checkpointRemoval.close();
    await this.background.settled();
  }

  async #pause(): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.clock.after(EXPIRY_RETRY_MS, over.resolve);
    await Promise.race([over.promise, this.#closing.promise]);
    timer.cancel();
  }

  #over(sandbox: Sandbox, note: string): void {
    this.reachability.end(sandbox.id);
    this.changes.note(sandbox.id);
    this.listener.tell("killed", sandbox, note);
  }
}
