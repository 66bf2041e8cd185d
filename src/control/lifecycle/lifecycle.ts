/**
 * The lifecycle of a sandbox, as one state machine.
 *
 *   from          trigger                              to            act                          then
 *   (none)        create, fork                         running       host.create before           row, expiry armed
 *   running       set timeout, refresh, connect        running       —                            new end, expiry armed
 *   running       new network rules                    running       host.setEgress               new rules; else old
 *   running       pause, end reached with autoPause,   pausing       host.pause                   paused; else running
 *                 idle with autoPause on a machine
 *                 that is short of memory
 *   paused        connect, resume, wake                resuming      host.resume                  running; else paused
 *   running       snapshot, fork                       snapshotting  host.snapshot                running
 *   running       kill, end reached, lost by the host  killing       host.destroy                 row removed
 *   paused        kill                                 killing       host.removeCheckpoint        row removed
 *   pausing, resuming, snapshotting: kill              unchanged     the kill is recorded         killing after that
 *   killing       start after a crash, retry           (none)        destroy, remove checkpoint   row removed
 *
 * Every transition decides, acts, then records. Deciding is one compare-and-set on (id, state, execution id), and only
 * the call that wins it acts. Create has no row yet, so it acts first and undoes that when the row cannot be written.
 * Whatever leads to a new run first takes one of the team's leases (`quota.ts`). `sandbox-status.ts` says what a row
 * means to readers, `recovery.ts` what a start does with the rows it finds.
 *
 * This folder handles no HTTP and touches no kernel interface: it changes rows of the store and calls the host.
 */
import { forEachLimited } from "../../base/for-each-limited.ts";
import { described } from "../../base/log.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import type { RouteEvent, Wake, WakeRequest } from "../../contract/internal/directory.ts";
import type { HostEvent } from "../../contract/internal/host.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox, SandboxRun } from "../../store/sandboxes.ts";
import type { StartableTemplate } from "../templates/template-lookup.ts";
import { Draining } from "./draining.ts";
import type { CreateKey } from "./idempotent-creates.ts";
import { LifecycleCore, type LifecycleServices } from "./lifecycle-core.ts";
import { newEnd } from "./lifecycle-listener.ts";
import { MemoryRelief } from "./memory-relief.ts";
import { requireForkWithinLimit } from "./quota.ts";
import { beingEnded, inTransition, notFound, notGoneYet, type SandboxStatus, shownState } from "./sandbox-status.ts";
import { endWithin, lastEnd, ranTooLong } from "./timers/run-length.ts";
import { type Attempt, untilSettled, waitLeft } from "./transition-wait.ts";
import { type BringUpOptions, type BroughtUp, bringUp } from "./transitions/bring-up.ts";
import { capture } from "./transitions/capture.ts";
import { type ConnectOptions, connectOptions, resumeOptions, wakeOptions } from "./transitions/connect-resume-wake.ts";
import { createFromTemplate, type SandboxOptions } from "./transitions/creation.ts";
import { type EgressChange, EgressChanges } from "./transitions/egress-changes.ts";
import { fork } from "./transitions/fork.ts";
import { Pausing } from "./transitions/pausing.ts";
import { recover } from "./transitions/recovery.ts";
import { type ResumeOptions, Resuming } from "./transitions/resuming.ts";
import { wakeRefusal } from "./transitions/wake.ts";

/** Sandboxes of a team that are killed at once. */
const TEAM_SANDBOXES_AT_ONCE = 4;

/** How long a kill waits for a sandbox that is between two states. The sandbox ends after that in any case. */
export const KILL_WAIT_MS = scaled(45_000);
/** Rounds of waiting for a running sandbox: other calls may begin new transitions meanwhile. */
const AT_REST_ROUNDS_MAX = 32;
/** Attempts of a kill when new runs begin meanwhile. */
const KILL_ROUNDS_MAX = 16;

export class Lifecycle {
  readonly draining: Draining;
  readonly #core: LifecycleCore;
  readonly #pausing: Pausing;
  readonly #relief: MemoryRelief;
  readonly #resuming: Resuming;
  readonly #egressChanges: EgressChanges;

  constructor(services: LifecycleServices) {
    this.draining = new Draining(services);
    this.#core = new LifecycleCore(services, {
      onDue: (due) => this.#pausing.enqueue(due),
      requireRoom: () => {
        this.draining.requireReady();
        this.#relief.requireEnough();
      },
    });
    this.#pausing = new Pausing(this.#core);
    this.#relief = new MemoryRelief({
      core: this.#core,
      idle: services.idle,
      pause: (sandbox, note) => this.#pausing.now(sandbox, true, note),
    });
    this.#resuming = new Resuming(this.#core);
    this.#egressChanges = new EgressChanges(this.#core);
  }

  /** Events of the host. Never waits. */
  onHostEvent(event: HostEvent): void {
    const run = event.kind === "lost" ? this.#core.reachability.runOf(event.id) : undefined;
    this.#core.reachability.onHostEvent(event);
    if (event.kind === "memory") this.#relief.onHostEvent(event);
    if (event.kind !== "lost") return;
    this.#core.background.run("loss of a sandbox not recorded", () => this.#lost(event.id, run, event.reason));
  }

  /** The routes to sandboxes, now and after every change. */
  followRoutes(listener: (event: RouteEvent) => void): void {
    this.#core.reachability.follow(listener);
  }

  /** Recovers the sandboxes that existed before a restart. Call nothing else before it is done. */
  async start(): Promise<void> {
    await this.draining.start();
    await recover(this.#core);
    this.#egressChanges.repair(await this.#core.store.egressChanges.unsettled());
  }

  /** Sends the egress rules of a team's running sandboxes to the host again. */
  renewEgress = (teamId: string) => this.#egressChanges.renew(teamId);

  /** With a key, the new sandbox is recorded under it. Fault 409 if another one has been meanwhile. */
  create(team: Team, from: StartableTemplate, options: SandboxOptions, key?: CreateKey): Promise<Sandbox> {
    return createFromTemplate(this.#core, team, from, options, key);
  }

  /** Starts of sandboxes from a template or as copies: since the start of the server, and under way. */
  get starts(): { succeeded: number; failed: number; underWay: number } {
    return { ...this.#core.placements, underWay: this.#core.quota.starting };
  }

  /** The team's sandbox while it is running or paused, or a Fault 404. */
  async read(team: Team, id: string): Promise<Sandbox> {
    const sandbox = await this.#core.sandboxOf(team, id);
    if (shownState(sandbox, this.#core.clock.now()) === undefined) throw notFound(id);
    return sandbox;
  }

  setEnd(team: Team, id: string, seconds: number): Promise<Sandbox> {
    return this.#changeEnd(team, id, seconds, this.#core.store.sandboxes.setEnd);
  }

  /** As `setEnd`, but never to an earlier time. */
  extendEnd(team: Team, id: string, seconds: number): Promise<Sandbox> {
    return this.#changeEnd(team, id, seconds, this.#core.store.sandboxes.extendEnd);
  }

  /** Replaces the egress rules. Resolves when the new rules hold. When it throws, the old rules hold, or will again. */
  async setEgress(team: Team, id: string, change: EgressChange): Promise<void> {
    await this.#egressChanges.requirePossible(team, change);
    let isTried = false;
    try {
      await this.#whenAtRest(team, id, {
        whenPaused: () => new Fault(409, `sandbox "${id}" is paused; resume it first`),
        whenRunning: (sandbox) => {
          isTried = true;
          return this.#egressChanges.apply(sandbox, change);
        },
      });
    } catch (error) {
      if (isTried) this.#egressChanges.repair([id]);
      throw error;
    }
  }

  /** Running: sets or extends the end. Paused: resumes with that end. `resumed` says which. */
  connect(team: Team, id: string, options: ConnectOptions): Promise<BroughtUp> {
    return this.#bringUp(id, connectOptions(this.#core, team, id, options));
  }

  /** Fault 409 when it is already running. */
  async resume(team: Team, id: string, options: Omit<ResumeOptions, "mintToken">): Promise<Sandbox> {
    return (await this.#bringUp(id, resumeOptions(this.#core, team, id, options))).sandbox;
  }

  /** Fault 409 only when it is already paused: clients treat that as success. */
  async pause(team: Team, id: string, memory: boolean): Promise<void> {
    await this.#whenAtRest(team, id, {
      whenPaused: () => new Fault(409, `sandbox "${id}" is already paused`),
      whenBusy: () =>
        new Fault(503, `sandbox "${id}" is being resumed or copied and was not paused; try again in a moment`),
      whenRunning: async (sandbox) => (await this.#pausing.now(sandbox, memory)) || undefined,
    });
  }

  /** `use` gets the name of a checkpoint of the running sandbox, to record it or to discard it. */
  async snapshot<T>(
    team: Team,
    id: string,
    memory: boolean,
    use: (sandbox: Sandbox, checkpoint: string) => Promise<T>,
  ): Promise<T> {
    return this.#whenAtRest(team, id, {
      whenPaused: () => new Fault(404, `sandbox "${id}" is paused; resume it first`),
      whenRunning: async (sandbox) => {
        const captured = await capture(this.#core, sandbox, { memory });
        if (captured === undefined) return undefined;
        try {
          return await use(captured.source, captured.checkpoint);
        } catch (error) {
          this.discard([captured.checkpoint]);
          throw error;
        }
      },
    });
  }

  /** Copies of a running sandbox, each with its own id and tokens; a Fault in place of each copy that failed. */
  async fork(team: Team, id: string, count: number, seconds: number): Promise<(Sandbox | Fault)[]> {
    requireForkWithinLimit(team, count);
    return this.#whenAtRest(team, id, {
      whenPaused: () => new Fault(409, `sandbox "${id}" is paused; resume it first`),
      whenRunning: (sandbox) => fork(this.#core, team, sandbox, count, seconds),
    });
  }

  /** Removes those of these checkpoints that no build starts from, in the background. */
  discard(checkpoints: readonly string[]): void {
    this.#core.discard(checkpoints);
  }

  /** Reports a snapshot after its caller has recorded the checkpoint. */
  noteSnapshot(sandbox: Sandbox, note: string): void {
    this.#core.listener.onEvent("checkpointed", sandbox, note);
  }

  /**
   * Returns when the sandbox is gone, or when another call has just begun to end it. Fault 503 when it is not gone in
   * time; the removal then continues.
   */
  async kill(team: Team, id: string): Promise<void> {
    const { store, reachability, removal } = this.#core;
    let sandbox: Sandbox | undefined = await this.#core.sandboxOf(team, id);
    for (let round = 0; round < KILL_ROUNDS_MAX; round++) {
      if (sandbox === undefined) return;
      if (sandbox.state === "killing" && removal.hasFailed(id)) throw notGoneYet(id);
      if (sandbox.state === "killing" || sandbox.killWanted) return;
      const killed = await this.#core.beginKill(sandbox);
      if (killed?.state === "killing") return this.#core.end(killed, "killed");
      if (killed !== undefined) {
        reachability.end(id);
        this.#prioritise(id);
        return this.#gone(killed);
      }
      // Another kill was first, or a resume began a new run in between.
      sandbox = await store.sandboxes.byId(id);
    }
    throw inTransition(id);
  }

  /** Kills all sandboxes of a team. `left` counts those that are not gone in time; their removal continues. */
  async killAll(team: Team): Promise<{ gone: number; left: number }> {
    const killed = { gone: 0, left: 0 };
    await forEachLimited(await this.#core.store.sandboxes.idsOfTeam(team.id), TEAM_SANDBOXES_AT_ONCE, async (id) => {
      try {
        await this.kill(team, id);
        killed.gone += 1;
      } catch (error) {
        const { status } = Fault.from(error);
        if (status === 404) return;
        killed.left += 1;
        const event = "a sandbox of a team could not be killed yet";
        this.#core.log.write({ level: "warn", event, sandbox: id, error: described(error) });
      }
    });
    return killed;
  }

  /** Makes a sandbox without an open route reachable: waits for it, or wakes it if that is allowed. */
  async wake(id: string, request: WakeRequest): Promise<Wake> {
    try {
      await this.#bringUp(id, wakeOptions(this.#core, id, request));
    } catch (error) {
      // The client learns only that nothing was found.
      if (Fault.from(error).status === 422) {
        const event = "a request could not wake a sandbox";
        this.#core.log.write({
          level: "warn",
          event,
          sandbox: id,
          request: request.origin?.id,
          error: described(error),
        });
      }
      return { refused: wakeRefusal(error) };
    }
    if (this.#core.reachability.isReachable(id)) return { woken: true };
    // It ran a moment ago: either another call has begun a transition, or the host has just lost it.
    return { refused: this.#core.reachability.isHidden(id) ? "in-transition" : "not-found" };
  }

  /** Resolves once no background work is in progress. */
  settled = () => this.#core.settled();

  /** From now on, calls that wait give up. */
  beginClose = () => this.#core.beginClose();

  /** Stops the timers and waits for work in progress. Sandboxes keep running. */
  async close(): Promise<void> {
    this.#pausing.close();
    this.#relief.close();
    this.#egressChanges.close();
    await this.#core.close();
  }

  readonly #prioritise = (id: string) => this.#pausing.prioritise(id);

  #bringUp(id: string, how: BringUpOptions): Promise<BroughtUp> {
    return bringUp(this.#core, { resuming: this.#resuming, prioritise: this.#prioritise }, id, how);
  }

  /** Calls `whenRunning` once the sandbox runs and is not in transition. */
  #whenAtRest<T>(
    team: Team,
    id: string,
    how: {
      /** Undefined: it no longer runs, so look again. */
      whenRunning(sandbox: Sandbox): Promise<T | undefined>;
      whenPaused(): Fault;
      whenOver?(): Fault;
      whenBusy?(): Fault;
    },
  ): Promise<T> {
    const attempt = async (sandbox: Sandbox, status: SandboxStatus): Promise<Attempt<T>> => {
      if (status === "over") throw how.whenOver?.() ?? notFound(id);
      if (status === "paused") throw how.whenPaused();
      if (status === "in-transition") return "wait";
      const done = await how.whenRunning(sandbox);
      return done === undefined ? "again" : { done };
    };
    return untilSettled(this.#core, {
      id,
      read: () => this.#core.sandboxOf(team, id),
      prioritise: this.#prioritise,
      attempt,
      rounds: AT_REST_ROUNDS_MAX,
      whenBusy: how.whenBusy,
    });
  }

  async #changeEnd(
    team: Team,
    id: string,
    seconds: number,
    change: (run: SandboxRun, endAt: number, now: number) => Promise<Sandbox | undefined>,
  ): Promise<Sandbox> {
    const { clock, expiry, listener } = this.#core;
    return this.#whenAtRest(team, id, {
      whenPaused: () => new Fault(404, `sandbox "${id}" is paused; resume it first`),
      whenOver: () => beingEnded(id),
      whenRunning: async (sandbox) => {
        const now = clock.now();
        if (seconds > 0 && lastEnd(team, sandbox) <= now) throw ranTooLong(team, id);
        const changed = await change(sandbox, endWithin(team, sandbox, seconds, now), now);
        if (changed === undefined) return undefined;
        expiry.noteEnd(changed.endAt);
        if (changed.endAt !== sandbox.endAt) listener.onEvent("updated", changed, newEnd(changed));
        return changed;
      },
    });
  }

  /** Waits for the end of a run whose kill is recorded. */
  async #gone(run: SandboxRun): Promise<void> {
    const { store, clock, changes } = this.#core;
    const deadline = clock.now() + KILL_WAIT_MS;
    for (;;) {
      using watch = changes.watch(run.id);
      const row = await store.sandboxes.byId(run.id);
      if (row === undefined || row.executionId !== run.executionId) return;
      if (!(await watch.within(waitLeft(deadline, clock.now())))) throw notGoneYet(run.id);
    }
  }

  /** `run` is the run that was lost, if control had begun one. */
  async #lost(id: string, run: string | undefined, reason: string): Promise<void> {
    const { store, reachability } = this.#core;
    let isTried = false;
    const lost = await this.#core.untilRecorded("a loss", async () => {
      const isLate = isTried;
      isTried = true;
      const row = await store.sandboxes.byId(id);
      // A pause and a resume may have begun a new run while the store was unavailable to this call.
      const isNewRun = isLate && (run === undefined ? reachability.isUp(id) : row?.executionId !== run);
      return isNewRun ? undefined : row;
    });
    if (lost?.state === "running") await this.#core.lost(lost, reason);
  }
}
