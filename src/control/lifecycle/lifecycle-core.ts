/** Services and closing steps that the transitions of a sandbox share. */
import { Background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { QuietPeriod } from "../../base/quiet-period.ts";
import { RetryQueue } from "../../base/retry-queue.ts";
import { Fault } from "../../contract/fault.ts";
import type { Host } from "../../contract/internal/host.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import type { Ids } from "../ids.ts";
import type { Parts } from "../parts.ts";
import { StoreRetry } from "../store-retry.ts";
import type { SharedMemory } from "../templates/shared-memory.ts";
import { Changes } from "./changes.ts";
import type { PrivateRangesOf } from "./egress.ts";
import type { LifecycleListener } from "./lifecycle-listener.ts";
import type { MemoryBound } from "./promised-memory.ts";
import { Quota } from "./quota.ts";
import { Reachability } from "./reachability.ts";
import { notFound } from "./sandbox-status.ts";
import { Expiry } from "./timers/expiry.ts";
import { SandboxRemoval } from "./transitions/sandbox-removal.ts";
import { StartRepair } from "./transitions/start-repair.ts";

/** Removal of used checkpoints waits while sandboxes are being resumed, at most for this long. */
const REMOVAL_PUT_OFF_MAX_MS = 5_000;
/** A failed removal of a checkpoint is retried after the first delay, doubling up to the second. */
const CHECKPOINT_REMOVAL_RETRY_MIN_MS = 1_000;
const CHECKPOINT_REMOVAL_RETRY_MAX_MS = 60_000;
const CHECKPOINT_REMOVALS_AT_ONCE = 4;

export interface LifecycleServices extends Parts {
  listener: LifecycleListener;
  privateRangesOf: PrivateRangesOf;
  sharedMemory: SharedMemory;
  memoryBound: MemoryBound | undefined;
  /** Those of these sandboxes that are idle, the longest idle first. */
  idle(ids: readonly string[]): Promise<string[]>;
  /** Called when a build gets a new checkpoint. */
  checkpointReplaced(): void;
}

interface LifecycleCalls {
  /** Gets the sandboxes that expiry has moved to `pausing`. */
  onDue(sandboxes: Sandbox[]): void;
  /** Fault 503 while the machine is short of memory, or drained. */
  requireRoom(): void;
}

export class LifecycleCore {
  readonly store: Store;
  readonly host: Host;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly listener: LifecycleListener;
  readonly privateRangesOf: PrivateRangesOf;
  readonly sharedMemory: SharedMemory;
  readonly background: Background;
  /** Idle time: no caller is waiting for a resume. */
  readonly quietPeriod: QuietPeriod;
  readonly reachability = new Reachability();
  readonly changes: Changes;
  readonly quota: Quota;
  readonly removal: SandboxRemoval;
  /** Removes checkpoints that no row names. If a restart interrupts that, adoption at the next start removes them. */
  readonly checkpointRemoval: RetryQueue<string>;
  readonly startRepair: StartRepair;
  readonly expiry: Expiry;
  /** Running sandboxes whose checkpoint is being made. */
  readonly captured = new Set<string>();
  /** Calls of `host.create` since the start of the server. */
  readonly placements = { succeeded: 0, failed: 0 };
  readonly #retry: StoreRetry;

  constructor(services: LifecycleServices, { onDue, requireRoom }: LifecycleCalls) {
    this.store = services.store;
    this.host = services.host;
    this.clock = services.clock;
    this.ids = services.ids;
    this.log = services.log;
    this.listener = services.listener;
    this.privateRangesOf = services.privateRangesOf;
    this.sharedMemory = services.sharedMemory;
    this.background = new Background(services.log);
    this.#retry = new StoreRetry(services);
    this.quietPeriod = new QuietPeriod(services.clock, REMOVAL_PUT_OFF_MAX_MS);
    this.changes = new Changes(services.clock);
    this.removal = new SandboxRemoval(this);
    this.quota = new Quota({ ...services, requireRoom, runsOn: (teamId) => this.removal.running(teamId) });
    this.checkpointRemoval = new RetryQueue<string>({
      clock: this.clock,
      background: this.background,
      work: async (checkpoint) => {
        await this.quietPeriod.wait();
        await this.host.removeCheckpoint(checkpoint);
      },
      failed: (checkpoint, error) => {
        const event = "checkpoint could not be removed";
        this.log.write({ level: "error", event, checkpoint, error: described(error) });
      },
      atOnce: CHECKPOINT_REMOVALS_AT_ONCE,
      retryMinMs: CHECKPOINT_REMOVAL_RETRY_MIN_MS,
      retryMaxMs: CHECKPOINT_REMOVAL_RETRY_MAX_MS,
    });
    this.startRepair = new StartRepair({
      ...services,
      discard: (checkpoints) => this.discard(checkpoints),
      replaced: () => services.checkpointReplaced(),
    });
    this.expiry = new Expiry(this, (taken) => {
      const due = taken.filter(({ state }) => state === "pausing");
      for (const { id } of due) this.reachability.hide(id);
      onDue(due);
      for (const sandbox of taken) if (sandbox.state === "killing") this.endSoon(sandbox, "its timeout ended");
    });
  }

  /** The team's sandbox, or a Fault 404. */
  async sandboxOf(team: Team, id: string): Promise<Sandbox> {
    const sandbox = await this.store.sandboxes.byId(id);
    // Another team's sandbox gets the same response as an unknown id.
    if (sandbox === undefined || sandbox.teamId !== team.id) throw notFound(id);
    return sandbox;
  }

  /** Removes those of these checkpoints that no build starts from, in the background. */
  discard(checkpoints: readonly string[]): void {
    if (checkpoints.length === 0) return;
    this.background.run("checkpoints could not be discarded; the next start removes them", async () => {
      const unused: string[] = [];
      for (const name of checkpoints) if (!(await this.store.buildsInUse.startsFrom(name))) unused.push(name);
      this.checkpointRemoval.enqueue(unused);
    });
  }

  /** Resolves once no background work is in progress. */
  async settled(): Promise<void> {
    await this.startRepair.settled();
    await this.background.settled();
  }

  /**
   * Completes a return to `running`: call it after the row has changed to `running`, or to `killing` because a kill was
   * requested meanwhile. Undefined: another call has changed the row.
   */
  async finishReturnToRunning(sandbox: Sandbox | undefined): Promise<void> {
    if (sandbox?.state === "killing") return this.endSoon(sandbox, "killed");
    // After a failure of the store another call may own the sandbox again; that call reports the change.
    if (sandbox?.state !== "running") return;
    this.reachability.show(sandbox.id);
    this.expiry.noteEnd(sandbox.endAt);
    this.changes.note(sandbox.id);
    // It may have died during the transition, when the lifecycle ignores events of the host.
    if (!this.reachability.isUp(sandbox.id)) await this.lost(sandbox);
  }

  /**
   * Ends a sandbox. Only the caller that changed the row to `killing` calls this or `endSoon`. Resolves when the
   * sandbox is gone. When it throws, the removal is retried.
   */
  async end(sandbox: Sandbox, note: string): Promise<void> {
    // After a failure of the store another call may have found the row in `killing` and begun the removal.
    if (!this.removal.isUnderWay(sandbox.id)) this.#over(sandbox, note);
    await this.removal.finish(sandbox);
  }

  /**
   * As `end`, without waiting: for callers that report no result, or that found the row in `killing` after a failure of
   * the store.
   */
  endSoon(sandbox: Sandbox, note: string): void {
    if (this.removal.isUnderWay(sandbox.id)) return;
    this.#over(sandbox, note);
    this.removal.enqueue([sandbox]);
  }

  /**
   * The host says that this run is over, or no longer knows it. True: it is ended by this. Repeated until it is
   * recorded, because the host says it once.
   */
  async lost(sandbox: Sandbox, reason = "its first process ended"): Promise<boolean> {
    const ended = await this.untilChanged("a loss", sandbox, (run) => this.store.sandboxes.endRunning(run));
    if (ended?.state !== "killing") return false;
    this.log.write({ level: "warn", event: "sandbox lost", sandbox: sandbox.id, reason });
    this.endSoon(ended, reason);
    return true;
  }

  /**
   * Records a completed step and retries for as long as the store is unavailable, so that a short failure leaves no
   * sandbox between two states. Gives up only when the server stops; the next start repairs the row.
   */
  untilRecorded<T>(what: string, record: () => Promise<T>): Promise<T> {
    return this.#retry.untilRecorded(what, record);
  }

  /**
   * As `untilRecorded`, for a change that takes this run out of its state. A failed attempt may have changed the row
   * nevertheless; the next attempt then finds another state and returns the row as it is.
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
   * Begins a transition with a compare-and-set of the row. A failed attempt may have changed the row nevertheless, and
   * then no call owns the sandbox. So a row with the fields in `to` is taken back a moment later.
   */
  async begin(
    id: string,
    change: () => Promise<Sandbox | undefined>,
    to: Partial<Sandbox>,
    note = "killed",
  ): Promise<Sandbox | undefined> {
    try {
      return await change();
    } catch (error) {
      // The store rejected this change, so the row is unchanged.
      if (error instanceof Fault) throw error;
      this.background.run("a failed state change could not be checked", async () => {
        await this.#retry.pause();
        const row = await this.untilRecorded("a change that failed", () => this.store.sandboxes.byId(id));
        if (row === undefined || this.captured.has(id)) return;
        const isChanged = Object.entries(to).every(([field, value]) => row[field as keyof Sandbox] === value);
        if (isChanged) await this.takeBack(row, note);
      });
      throw error;
    }
  }

  /** The way back from each state that a transition begins with. `note` is for a sandbox that ends by this. */
  async takeBack(row: Sandbox, note = "killed"): Promise<void> {
    const { abandonPause, finishSnapshot, abandonResume } = this.store.sandboxes;
    switch (row.state) {
      case "pausing":
        return await this.finishReturnToRunning(await this.untilChanged("a pause that failed", row, abandonPause));
      case "snapshotting":
        return await this.finishReturnToRunning(await this.untilChanged("a snapshot", row, finishSnapshot));
      case "resuming": {
        const back = await this.untilChanged("a resume that failed", row, abandonResume);
        if (back?.state === "killing") return this.endSoon(back, "killed");
        return this.changes.note(row.id);
      }
      case "killing":
        return this.endSoon(row, note);
      case "running":
        return void (await this.lost(row, note));
    }
  }

  /** Moves the row to `killing`, or records the request; see `kill` in the store. */
  beginKill(sandbox: Sandbox): Promise<Sandbox | undefined> {
    const { sandboxes } = this.store;
    const kill = async () => {
      const ended = sandbox.state === "running" ? await sandboxes.killRunning(sandbox) : undefined;
      return ended ?? (await sandboxes.kill(sandbox));
    };
    return this.begin(sandbox.id, kill, { state: "killing" });
  }

  /** From now on, waits end early. */
  beginClose(): void {
    this.#retry.close();
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

  #over(sandbox: Sandbox, note: string): void {
    this.reachability.end(sandbox.id);
    this.changes.note(sandbox.id);
    this.listener.onEvent("killed", sandbox, note);
  }
}
