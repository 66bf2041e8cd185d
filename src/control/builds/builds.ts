/**
 * Builds of templates, from the request to the result. A requested build waits until its client starts it. From then on
 * it is `building`, first in the queue and then on the host. Its plan, with any credentials, is only in memory: when
 * the server ends its builds end too, and the next start records that in their rows.
 *
 * One compare-and-set of the row ends a build: its result, a failure, a newer start of its template, the deletion of
 * the template, or the end of the server. Later endings find it over and clean up after themselves.
 *
 * This folder runs no step of a build: the host does, inside a sandbox.
 */
import { described } from "../../base/log.ts";
import { Fault, UncertainOutcome } from "../../contract/fault.ts";
import type { BuildLogEntry, BuildOutcome, HostEvent } from "../../contract/internal/host.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import type { Build } from "../../store/builds.ts";
import type { Team } from "../../store/people.ts";
import type { Tables } from "../../store/store.ts";
import { lockTeam } from "../access/people.ts";
import type { Parts } from "../parts.ts";
import { StoreRetry } from "../store-retry.ts";
import { TEMPLATE_BUILDING, type Unbuilt } from "../templates/template-lookup.ts";
import type { BuildLimits } from "./build-limits.ts";
import { type BuildPlan, filesOf, resolveOrigin, type TemplateOf } from "./build-plan.ts";
import { BuildQueue } from "./build-queue.ts";
import { type BuildRequestOf, type RequestedBuild, requestBuild } from "./build-request.ts";
import { StoredBuildLog } from "./stored-build-log.ts";
import { UnstartedBuilds } from "./unstarted-builds.ts";
import type { Uploads } from "./uploads.ts";

/** How long the image of a finished build is protected from removal based on an older read of the store. */
export const NEW_IMAGE_KEPT_MS = 60_000;

interface BuildServices extends Parts {
  uploads: Uploads;
  templateOf: TemplateOf;
  unbuilt: Unbuilt;
  /** Fault 503 while the machine is drained. */
  requireReady(): void;
  /** Private networks open to the sandboxes of a team, or to those without one. */
  privateRangesOf(teamId: string | undefined): Promise<readonly string[]>;
  /** Removes checkpoints that no row names, in the background. */
  discard(checkpoints: readonly string[]): void;
  /** Called when a build has become ready. */
  becameReady(): void;
}

/** A build from its start to its end. */
interface Job {
  id: string;
  templateId: string;
  startedAt: number;
  /** Undefined: a built-in template of the server. */
  team: Team | undefined;
  plan: BuildPlan;
  log: StoredBuildLog;
  /** Why the build must stop. */
  cancelled?: string;
  /** The result, for the server's log. */
  ended?: { isReady: true } | { isReady: false; message: string; step: string | null };
  /** Resolved when the build is over. */
  over: PromiseWithResolvers<void>;
  followers: Set<Follower>;
}

type Follower = (entries: readonly BuildLogEntry[]) => void;

const RESTARTED = "the server was restarted while the build was under way; start a new build";
const STOPPED = "the server was stopped while the build was under way; start a new build";
const NEWER_START = "cancelled: a newer build of the same template was started";
const NOT_BEGUN = "the database did not respond as the build was started; start a new build";
const BROKEN = "the server could not do the build; its log has the details";

/** Maximum length of a reason in the server's log. */
const LOGGED_REASON_MAX_CHARS = 500;
/** Owner of builds that belong to no team. */
const OWN = "sandlot";

export class Builds {
  readonly unstarted: UnstartedBuilds;
  readonly #queue: BuildQueue;
  readonly #jobs = new Map<string, Job>();
  /** Until when each image is protected. */
  readonly #newImages = new Map<string, number>();
  readonly #retry: StoreRetry;
  /** Builds whose start is being recorded. */
  readonly #beginning = new Set<{ id: string }>();
  #isClosing = false;

  constructor(
    private readonly services: BuildServices,
    readonly limits: BuildLimits,
  ) {
    this.#queue = new BuildQueue(limits.atOnce);
    this.unstarted = new UnstartedBuilds(services);
    this.#retry = new StoreRetry(services);
  }

  /** Ends builds that a restart interrupted. Builds that were not started yet can still be. */
  async recover(): Promise<void> {
    const { store, clock, log } = this.services;
    for (const { id, templateId } of await store.builds.unfinished("building")) {
      await store.builds.fail(id, { message: RESTARTED, step: null }, clock.now());
      log.write({ level: "warn", event: "a build was cut off by a restart", build: id, template: templateId });
    }
  }

  onHostEvent(event: HostEvent): void {
    if (event.kind !== "build-log") return;
    const job = this.#jobs.get(event.id);
    job?.log.add(event.entries);
    for (const follower of job?.followers ?? []) follower(event.entries);
  }

  /** Adds a build that waits for its start. Fault 429 when too many wait. */
  async request(request: BuildRequestOf): Promise<RequestedBuild> {
    refuseBlocked(request.team);
    await this.unstarted.endAbandoned();
    return await this.services.store.transaction((tables) => this.#requested(tables, request));
  }

  /** Requests a build and starts it at once. No client can start it later, so the build is over when that fails. */
  async requestAndStart(request: BuildRequestOf, plan: BuildPlan): Promise<RequestedBuild> {
    const { store, clock } = this.services;
    const requested = await this.request(request);
    try {
      await this.start(request.team, requested.build, plan);
    } catch (error) {
      const { message } = Fault.from(error);
      await store.builds.failUnstarted(requested.build.id, { message, step: null }, clock.now());
      throw error;
    }
    return requested;
  }

  /** Starts a build, or queues it. Another build of its template in progress is cancelled. */
  async start(team: Team, build: Build, plan: BuildPlan): Promise<void> {
    refuseBlocked(team);
    this.services.requireReady();
    await this.#refuseMissingFiles(plan);
    await this.#begin(team, build, plan, team.limits.builds ?? (await this.#share()));
  }

  /** As `start`, for a template without a team. One at a time: most of such a build waits for the lock of the cache. */
  async startOwn(build: Build, plan: BuildPlan): Promise<void> {
    await this.#begin(undefined, build, plan, 1);
  }

  async #begin(team: Team | undefined, { id, templateId }: Build, plan: BuildPlan, share: number): Promise<void> {
    if (this.#isClosing) throw new Fault(503, "the server is stopping; try again in a moment");
    const { store, clock } = this.services;
    const log = new StoredBuildLog(store, id, this.limits.logMaxBytes);
    const beginning = { id };
    this.#beginning.add(beginning);
    try {
      const superseded = await store.transaction(async ({ builds }) => {
        const begun = await builds.begin(id, plan.start, clock.now());
        if (begun === undefined) throw await notWaiting(builds, id);
        const others = (await builds.unfinished("building", templateId)).filter((other) => other.id !== id);
        for (const other of others) await builds.fail(other.id, { message: NEWER_START, step: null }, clock.now());
        return others;
      });
      for (const other of superseded) this.cancel(other.id, NEWER_START);
    } catch (error) {
      if (error instanceof UncertainOutcome) this.#endIfBegun(id, templateId);
      throw error;
    } finally {
      this.#beginning.delete(beginning);
    }
    const [startedAt, over, followers] = [clock.now(), Promise.withResolvers<void>(), new Set<Follower>()];
    const job: Job = { id, templateId, startedAt, team, plan, log, over, followers };
    this.#jobs.set(id, job);
    this.services.log.write({ level: "info", event: "template build started", ...factsOf(job) });
    const hasBegun = this.#queue.add(id, { team: ownerOf(job), share, work: () => this.#run(job) });
    if (!hasBegun) {
      const message = `waiting for a place: this server does ${this.limits.atOnce} builds at once, ${share} of one team`;
      log.add([{ at: clock.now(), level: "info", message, step: null }]);
    }
  }

  /** The last log entry; undefined when there is none yet, or the build is over. */
  lastLogEntry(id: string): BuildLogEntry | undefined {
    return this.#jobs.get(id)?.log.last;
  }

  /** Sends the log of a build in progress to `follower` until disposal. It must not throw. */
  follow(id: string, follower: Follower): Disposable {
    const followers = this.#jobs.get(id)?.followers;
    followers?.add(follower);
    return { [Symbol.dispose]: () => void followers?.delete(follower) };
  }

  isUnderWay(id: string): boolean {
    return this.#jobs.has(id);
  }

  /** Resolves once the build is over; at once if it is not in progress. */
  async over(id: string): Promise<void> {
    await this.#jobs.get(id)?.over.promise;
  }

  /** Resolves when no build of the team is under way. Their rows say that they are over. */
  async allOver(teamId: string): Promise<void> {
    const jobs = [...this.#jobs.values()].filter(({ team }) => team?.id === teamId);
    await Promise.all(jobs.map(({ over }) => over.promise));
  }

  /** Stops a build whose row says that it is over. Unknown ids are ignored. */
  cancel(id: string, reason: string): void {
    const job = this.#jobs.get(id);
    // A build that has not reached the host yet checks this before it does.
    if (job !== undefined) job.cancelled ??= reason;
    if (job !== undefined && this.#queue.remove(id)) this.#forget(job);
    else
      this.services.background.run("a build could not be cancelled", () => this.services.host.cancelBuild(id, reason));
  }

  /** Ends all builds of a team, started or not, and resolves with their ids once none is under way. */
  async cancelAll(teamId: string, reason: string): Promise<string[]> {
    const { store, clock } = this.services;
    const unfinished = await store.transaction(async ({ builds }) => {
      const found = await builds.unfinishedOf(teamId);
      for (const { id } of found) await builds.fail(id, { message: reason, step: null }, clock.now());
      return found;
    });
    for (const { id } of unfinished) this.cancel(id, reason);
    await Promise.all(unfinished.map(({ id }) => this.over(id)));
    return unfinished.map(({ id }) => id);
  }

  /**
   * Images of builds that are being recorded, or were a moment ago. A sweep whose list of rows was read just before
   * must not remove them as unused.
   */
  get newImages(): string[] {
    const now = this.services.clock.now();
    for (const [image, until] of this.#newImages) if (until <= now) this.#newImages.delete(image);
    return [...this.#newImages.keys()];
  }

  /** Uploaded archives that current builds need. */
  get filesInUse(): ReadonlySet<string> {
    return new Set([...this.#jobs.values()].flatMap(({ plan }) => filesOf(plan).map(({ name }) => name)));
  }

  /** Ends all builds. Clients have to start them again. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#retry.close();
    const { store, clock } = this.services;
    const jobs = [...this.#jobs.values()];
    for (const { id } of jobs) {
      await store.builds.fail(id, { message: STOPPED, step: null }, clock.now());
      this.cancel(id, STOPPED);
    }
    await Promise.all(jobs.map(({ over }) => over.promise));
  }

  /** The start of a build that failed may have been made nevertheless: then nothing works on the build. */
  #endIfBegun(id: string, templateId: string): void {
    const { store, clock, background } = this.services;
    background.run("the start of a build that failed could not be checked", async () => {
      await this.#retry.pause();
      const build = await this.#untilRecorded("the start of a build", () => store.builds.byId(id));
      const isOwned = this.#jobs.has(id) || [...this.#beginning].some((each) => each.id === id);
      if (build?.status !== "building" || isOwned) return;
      await this.#untilRecorded("the end of a build", () =>
        store.builds.fail(id, { message: NOT_BEGUN, step: null }, clock.now()),
      );
      // The same change has ended other builds of the template.
      for (const other of [...this.#jobs.values()].filter((job) => job.templateId === templateId)) {
        const row = await this.#untilRecorded("the end of a build", () => store.builds.byId(other.id));
        if (row?.status === "error") this.cancel(other.id, NEWER_START);
      }
    });
  }

  /** Repeats `record` while the store is unavailable; other failures are thrown. */
  #untilRecorded<T>(what: string, record: () => Promise<T>): Promise<T> {
    return this.#retry.untilRecorded(what, record, isUnavailable);
  }

  #forget(job: Job): void {
    this.#jobs.delete(job.id);
    this.#logEnd(job);
    job.over.resolve();
  }

  #logEnd(job: Job): void {
    const { clock, log } = this.services;
    const { ended, cancelled = "it was ended meanwhile" } = job;
    const facts = { ...factsOf(job), ms: clock.now() - job.startedAt };
    if (ended?.isReady) return void log.write({ level: "info", event: "template build finished", ...facts });
    const { message, step } = ended ?? { message: cancelled, step: null };
    const reason = message.slice(0, LOGGED_REASON_MAX_CHARS);
    log.write({ level: "info", event: "template build failed", ...facts, step: step ?? undefined, reason });
  }

  /** Concurrent builds of one team: not all places, unless there is only one team. */
  async #share(): Promise<number> {
    const { atOnce } = this.limits;
    const others = (await this.services.store.people.teamCount()) - 1;
    return others === 0 ? atOnce : Math.max(1, atOnce - 1);
  }

  async #requested(tables: Tables, request: BuildRequestOf): Promise<RequestedBuild> {
    const { ids, clock } = this.services;
    const fresh = { templateId: ids.templateId(), buildId: ids.uuid(), now: clock.now() };
    await lockTeam(tables, request.team.id);
    const requested = await requestBuild(tables, request, fresh);
    const waiting = await tables.builds.countUnfinished("waiting", request.team.id);
    const most = this.limits.waitingPerTeam;
    if (waiting + this.#queue.waitingOf(request.team.id) > most) {
      throw new Fault(429, `this team has ${most} builds that wait; start them, or wait until one is over`);
    }
    return requested;
  }

  async #refuseMissingFiles(plan: BuildPlan): Promise<void> {
    for (const { name, step } of filesOf(plan)) {
      if (await this.services.uploads.touch(name)) continue;
      throw new Fault(400, `the files of step ${step} have not been uploaded; ask for a link and send them first`);
    }
  }

  /** Never throws, so that the queue continues. */
  async #run(job: Job): Promise<void> {
    const { store, log } = this.services;
    try {
      const row = await this.#untilRecorded("the start of a build", () => store.builds.byId(job.id));
      if (row?.status === "building") await this.#build(job);
    } catch (error) {
      job.ended = { isReady: false, message: BROKEN, step: null };
      log.write({ level: "error", event: "a build broke", build: job.id, error: described(error) });
      await this.#failed(job, BROKEN, null).catch((cause: unknown) => {
        // The row stays "building" until the next start, which ends such builds.
        const event = "a build was not marked as failed";
        log.write({ level: "error", event, build: job.id, error: described(cause) });
      });
    } finally {
      this.#forget(job);
    }
  }

  async #build(job: Job): Promise<void> {
    const outcome = await this.#outcome(job);
    if (outcome === undefined) return;
    if (outcome.isReady) this.#newImages.set(outcome.image, Number.POSITIVE_INFINITY);
    try {
      // Before the row changes, so that a client that reads the result finds the whole log.
      await this.#untilRecorded("the log of a build", () => job.log.flushed());
      if (outcome.isReady) return await this.#record(job, outcome);
    } finally {
      if (outcome.isReady) this.#newImages.set(outcome.image, this.services.clock.now() + NEW_IMAGE_KEPT_MS);
    }
    job.ended = outcome;
    await this.#failed(job, outcome.message, outcome.step);
  }

  async #failed({ id }: Job, message: string, step: string | null): Promise<void> {
    const { store, clock } = this.services;
    await this.#untilRecorded("the end of a build", () => store.builds.fail(id, { message, step }, clock.now()));
  }

  /** Undefined: it was cancelled before it reached the host. */
  async #outcome(job: Job): Promise<BuildOutcome | undefined> {
    const { store, host } = this.services;
    const [origin, build] = [await this.#originOf(job), await store.builds.byId(job.id)];
    if (origin instanceof Fault) return { isReady: false, step: "base", message: origin.message };
    if (build === undefined || job.cancelled !== undefined) return undefined;
    const { plan } = job;
    const privateRanges = await this.services.privateRangesOf(job.team?.id);
    return await host.build({
      id: job.id,
      templateId: build.templateId,
      owner: ownerOf(job),
      from: origin,
      steps: plan.steps,
      start: plan.start,
      force: plan.force,
      cpuCount: build.cpuCount,
      memoryMB: build.memoryMB,
      diskSizeMB: build.diskSizeMB,
      ...(privateRanges.length > 0 && { privateRanges }),
      ...(build.wall === null ? {} : { wall: build.wall }),
    });
  }

  /** A missing template fails the build: its client already knows that it started. */
  async #originOf({ team, plan }: Job) {
    try {
      return await resolveOrigin(this.services, team, plan);
    } catch (error) {
      const fault = Fault.from(error);
      if (fault.status >= 500 && fault.errorCode !== TEMPLATE_BUILDING) throw error;
      return fault;
    }
  }

  async #record(job: Job, outcome: BuildOutcome & { isReady: true }): Promise<void> {
    const { store, clock, discard, becameReady } = this.services;
    const { image, defaultUser, defaultWorkdir, envVars, checkpoint } = outcome;
    const guestVersion = checkpoint === null ? null : RUNTIME_VERSION;
    const result = { image, defaultUser, defaultWorkdir, envVars, guestVersion, checkpoint };
    let isTried = false;
    const recorded = await this.#untilRecorded("the result of a build", async () => {
      const isDoubtful = isTried;
      isTried = true;
      const finished = await store.transaction(({ builds }) => builds.finish(job.id, result, clock.now()));
      if (finished !== undefined || !isDoubtful) return finished;
      // Only this call makes the build ready: an attempt whose reply was lost has done so.
      const row = await store.builds.byId(job.id);
      return row?.status === "ready" ? row : undefined;
    });
    if (recorded !== undefined) {
      job.ended = { isReady: true };
      becameReady();
    } else if (checkpoint !== null) discard([checkpoint]);
  }
}

function factsOf({ id, templateId, team }: Job) {
  return { build: id, template: templateId, team: team?.slug };
}

function ownerOf({ team }: Job): string {
  return team?.id ?? OWN;
}

function refuseBlocked(team: Team): void {
  if (!team.limits.blocked) return;
  throw new Fault(403, "this team is blocked: it may start no build until the operator of this server allows it");
}

function isUnavailable(error: unknown): boolean {
  return Fault.from(error).status === 503;
}

async function notWaiting(builds: Tables["builds"], id: string): Promise<Fault> {
  const { status, reason } = (await builds.byId(id)) ?? { status: "gone", reason: null };
  const why = reason === null ? "" : ` (${reason.message})`;
  return new Fault(400, `build "${id}" is ${status}${why}; only one that waits can be started. Ask for a new one`);
}
