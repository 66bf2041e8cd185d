/**
 * Builds of templates, from the request to the result. A build that was asked for waits until its client starts it;
 * from then on it is `building`, first in line for a place and then on the host. What it is to do, with the credentials
 * in it, is in memory alone: a server that ends takes its builds with it, and the next start says so in their rows.
 *
 * A build is over once its row says so, which one compare-and-set decides: its result, a failure, a newer start of its
 * template, its template's end or the server's. Whoever else ends later finds it over and cleans up after itself.
 */

import type { Background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { described, type Log } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { BuildLogEntry, BuildOutcome, Host, HostEvent } from "../../contract/internal/host.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import type { Build } from "../../store/builds.ts";
import type { Team } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Ids } from "../access/ids.ts";
import { TEMPLATE_BUILDING, type Unbuilt } from "../templates/template-look-up.ts";
import type { BuildLimits } from "./build-limits.ts";
import { BuildLog } from "./build-log.ts";
import { type BuildPlan, filesOf, resolveOrigin, type TemplateOf } from "./build-plan.ts";
import { BuildQueue } from "./build-queue.ts";
import { type BuildRequestOf, type RequestedBuild, requestBuild } from "./build-request.ts";
import { UnstartedBuilds } from "./unstarted-builds.ts";
import type { Uploads } from "./uploads.ts";

/** How long the image of a build that has ended is nobody's to remove, whatever was read of the store before. */
export const IMAGE_IN_HAND_MS = 60_000;

interface BuildServices {
  store: Store;
  host: Host;
  clock: Clock;
  ids: Ids;
  log: Log;
  background: Background;
  uploads: Uploads;
  templateOf: TemplateOf;
  unbuilt: Unbuilt;
  /** Private networks that are open to sandboxes of a team, or of none. */
  privateRangesOf(teamId: string | undefined): Promise<readonly string[]>;
  /** Removes, in its own time, checkpoints that no row names. */
  discard(checkpoints: readonly string[]): void;
  /** Told when a build has become ready. */
  becameReady(): void;
}

/** A build from its start to its end. */
interface Job {
  id: string;
  templateId: string;
  startedAt: number;
  /** Undefined: it is one of the server's own. */
  team: Team | undefined;
  plan: BuildPlan;
  log: BuildLog;
  /** Why it is not to go on. */
  cancelled: string | undefined;
  /** What has come of it, for the server's log. */
  ended: { isReady: true } | { isReady: false; message: string; step: string | null } | undefined;
  /** Resolved when nothing more becomes of it. */
  over: PromiseWithResolvers<void>;
  followers: Set<(entries: readonly BuildLogEntry[]) => void>;
}

const RESTARTED = "the server was restarted while the build was under way; start a new build";
const STOPPED = "the server was stopped while the build was under way; start a new build";
const NEWER_START = "cancelled: a newer build of the same template was started";
const BROKEN = "the server could not do the build; its log has the details";

/** Of a reason, for the server's log. */
const LOGGED_REASON_MAX_CHARS = 500;
/** In the place of a team: of builds of the server's own. */
const OWN = "sandlot";

export class Builds {
  readonly #services: BuildServices;
  readonly #limits: BuildLimits;
  readonly #queue: BuildQueue;
  readonly #unstarted: UnstartedBuilds;
  readonly #jobs = new Map<string, Job>();
  readonly #running = new Set<Promise<void>>();
  /** Until when each image counts as in hand. */
  readonly #inHand = new Map<string, number>();
  #isClosing = false;

  constructor(services: BuildServices, limits: BuildLimits) {
    this.#services = services;
    this.#limits = limits;
    this.#queue = new BuildQueue(limits.atOnce);
    this.#unstarted = new UnstartedBuilds(services);
  }

  get limits(): BuildLimits {
    return this.#limits;
  }

  /** Those of the run before are over: nobody goes on with them. Those that nobody has started can still be. */
  async recover(): Promise<void> {
    const { store, clock, log } = this.#services;
    for (const { id, templateId } of await store.builds.unfinished("building")) {
      await store.builds.fail(id, { message: RESTARTED, step: null }, clock.now());
      log.write({ level: "warn", event: "a build was cut off by a restart", build: id, template: templateId });
    }
  }

  heard(event: HostEvent): void {
    if (event.kind !== "build-log") return;
    const job = this.#jobs.get(event.id);
    job?.log.add(event.entries);
    for (const follower of job?.followers ?? []) follower(event.entries);
  }

  /** A build that waits for its start. Fault 429 when too many do. */
  async request(request: BuildRequestOf): Promise<RequestedBuild> {
    refuseBlocked(request.team);
    const { store } = this.#services;
    await this.endAbandoned();
    return await store.transaction((tables) => this.#requested(tables, request));
  }

  /** The same, and starts it at once. Nobody else starts it: when that fails, the build is over. */
  async requestAndStart(request: BuildRequestOf, plan: BuildPlan): Promise<RequestedBuild> {
    const { store, clock } = this.#services;
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

  /** What the client of a build that waits was answered when it started it. */
  async startRefused(id: string, fault: Fault): Promise<void> {
    await this.#unstarted.refused(id, fault);
  }

  /** Ends builds whose clients have gone away. */
  async endAbandoned(): Promise<void> {
    await this.#unstarted.endAbandoned();
  }

  /** From now on it builds, or waits in line for a place; another one of its template that does is cancelled. */
  async start(team: Team, build: Build, plan: BuildPlan): Promise<void> {
    refuseBlocked(team);
    await this.#refuseMissingFiles(plan);
    await this.#begin(team, build, plan, team.limits.builds ?? (await this.#share()));
  }

  /** The same of a template of no team. One at a time: most of it waits for the lock of the cache anyway. */
  async startOwn(build: Build, plan: BuildPlan): Promise<void> {
    await this.#begin(undefined, build, plan, 1);
  }

  async #begin(team: Team | undefined, { id, templateId }: Build, plan: BuildPlan, share: number): Promise<void> {
    if (this.#isClosing) throw new Fault(503, "the server is stopping; try again in a moment");
    const { store, clock } = this.#services;
    const log = new BuildLog(store, id, this.#limits.logMaxBytes);
    const superseded = await store.transaction(async ({ builds }) => {
      const begun = await builds.begin(id, plan.start, clock.now());
      if (begun === undefined) throw await notWaiting(builds, id);
      const others = (await builds.unfinished("building", templateId)).filter((other) => other.id !== id);
      for (const other of others) await builds.fail(other.id, { message: NEWER_START, step: null }, clock.now());
      return others;
    });
    for (const other of superseded) this.cancel(other.id, NEWER_START);
    const job: Job = {
      id,
      templateId,
      startedAt: clock.now(),
      ended: undefined,
      team,
      plan,
      log,
      cancelled: undefined,
      over: Promise.withResolvers(),
      followers: new Set(),
    };
    this.#jobs.set(id, job);
    this.#services.log.write({ level: "info", event: "template build started", ...factsOf(job) });
    const hasBegun = this.#queue.add(id, { team: ownerOf(job), share, work: () => this.#counted(this.#run(job)) });
    if (!hasBegun) {
      const message = `waiting for a place: this server does ${this.#limits.atOnce} builds at once, ${share} of one team`;
      log.add([{ at: clock.now(), level: "info", message, step: null }]);
    }
  }

  /** What it said last; undefined: nothing yet, or it is over. */
  lastWords(id: string): BuildLogEntry | undefined {
    return this.#jobs.get(id)?.log.last;
  }

  /** From now on, until it is disposed of, this hears what a build says that is under way. It must not throw. */
  follow(id: string, follower: (entries: readonly BuildLogEntry[]) => void): Disposable {
    const followers = this.#jobs.get(id)?.followers;
    followers?.add(follower);
    return { [Symbol.dispose]: () => void followers?.delete(follower) };
  }

  isUnderWay(id: string): boolean {
    return this.#jobs.has(id);
  }

  /** Resolves once it is over, if it is under way. */
  async over(id: string): Promise<void> {
    await this.#jobs.get(id)?.over.promise;
  }

  /** Ends what there is of a build whose row says that it is over. Unknown ids are fine. */
  cancel(id: string, reason: string): void {
    const job = this.#jobs.get(id);
    // One that is on its way to the host finds this before it gets there.
    if (job !== undefined) job.cancelled ??= reason;
    if (job !== undefined && this.#queue.remove(id)) this.#forget(job);
    else
      this.#services.background.run("a build could not be cancelled", () =>
        this.#services.host.cancelBuild(id, reason),
      );
  }

  /**
   * Images of builds that are being recorded, and of those that were a moment ago: who asked the store for all there
   * are, and got the answer just before, must not take them for nobody's.
   */
  get imagesInHand(): string[] {
    const now = this.#services.clock.now();
    for (const [image, until] of this.#inHand) if (until <= now) this.#inHand.delete(image);
    return [...this.#inHand.keys()];
  }

  /** Uploaded archives that builds of this moment need. */
  get filesInUse(): ReadonlySet<string> {
    return new Set([...this.#jobs.values()].flatMap(({ plan }) => filesOf(plan).map(({ name }) => name)));
  }

  /** Ends all builds: who wants one starts it again. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const { store, clock } = this.#services;
    for (const { id } of [...this.#jobs.values()]) {
      await store.builds.fail(id, { message: STOPPED, step: null }, clock.now());
      this.cancel(id, STOPPED);
    }
    await Promise.all(this.#running);
  }

  #forget(job: Job): void {
    this.#jobs.delete(job.id);
    this.#logEnd(job);
    job.over.resolve();
  }

  #logEnd(job: Job): void {
    const { clock, log } = this.#services;
    const { ended, cancelled = "it was ended meanwhile" } = job;
    const facts = { ...factsOf(job), ms: clock.now() - job.startedAt };
    if (ended?.isReady) return void log.write({ level: "info", event: "template build finished", ...facts });
    const { message, step } = ended ?? { message: cancelled, step: null };
    const reason = message.slice(0, LOGGED_REASON_MAX_CHARS);
    log.write({ level: "info", event: "template build failed", ...facts, step: step ?? undefined, reason });
  }

  async #counted(run: Promise<void>): Promise<void> {
    this.#running.add(run);
    await run;
    this.#running.delete(run);
  }

  /** How many of one team may be under way: never all, unless there is no other that could want a place. */
  async #share(): Promise<number> {
    const { atOnce } = this.#limits;
    const others = (await this.#services.store.people.teamCount()) - 1;
    return others === 0 ? atOnce : Math.max(1, atOnce - 1);
  }

  async #requested(tables: Tables, request: BuildRequestOf): Promise<RequestedBuild> {
    const { ids, clock } = this.#services;
    const fresh = { templateId: ids.templateId(), buildId: ids.uuid(), now: clock.now() };
    const requested = await requestBuild(tables, request, fresh);
    const waiting = await tables.builds.countUnfinished("waiting", request.team.id);
    const most = this.#limits.waitingPerTeam;
    if (waiting + this.#queue.waitingOf(request.team.id) > most) {
      throw new Fault(429, `this team has ${most} builds that wait; start them, or wait until one is over`);
    }
    return requested;
  }

  async #refuseMissingFiles(plan: BuildPlan): Promise<void> {
    for (const { name, step } of filesOf(plan)) {
      if (await this.#services.uploads.touch(name)) continue;
      throw new Fault(400, `the files of step ${step} have not been uploaded; ask for a link and send them first`);
    }
  }

  /** Never throws: the queue goes on. */
  async #run(job: Job): Promise<void> {
    const { store, clock, log } = this.#services;
    try {
      if ((await store.builds.byId(job.id))?.status === "building") await this.#build(job);
    } catch (error) {
      job.ended = { isReady: false, message: BROKEN, step: null };
      log.write({ level: "error", event: "a build could not be done", build: job.id, error: described(error) });
      await store.builds.fail(job.id, { message: BROKEN, step: null }, clock.now()).catch((cause: unknown) => {
        // It reads "building" until the next start, which ends what nobody builds.
        log.write({
          level: "error",
          event: "a build was not marked as failed",
          build: job.id,
          error: described(cause),
        });
      });
    } finally {
      this.#forget(job);
    }
  }

  async #build(job: Job): Promise<void> {
    const { store, clock } = this.#services;
    const outcome = await this.#outcome(job);
    if (outcome === undefined) return;
    if (outcome.isReady) this.#inHand.set(outcome.image, clock.now() + IMAGE_IN_HAND_MS);
    // Whoever reads that it is over finds all that it said.
    await job.log.flushed();
    if (outcome.isReady) return this.#record(job, outcome);
    job.ended = outcome;
    await store.builds.fail(job.id, { message: outcome.message, step: outcome.step }, clock.now());
  }

  /** Undefined: it has been cancelled before it came to the host. */
  async #outcome(job: Job): Promise<BuildOutcome | undefined> {
    const { store, host } = this.#services;
    const [origin, build] = [await this.#originOf(job), await store.builds.byId(job.id)];
    if (origin instanceof Fault) return { isReady: false, step: "base", message: origin.message };
    if (build === undefined || job.cancelled !== undefined) return undefined;
    const { plan } = job;
    const privateRanges = await this.#services.privateRangesOf(job.team?.id);
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

  /** A template that is not there fails the build: its client has been told that it was started. */
  async #originOf({ team, plan }: Job) {
    try {
      return await resolveOrigin(this.#services, team, plan);
    } catch (error) {
      const fault = Fault.from(error);
      if (fault.status >= 500 && fault.errorCode !== TEMPLATE_BUILDING) throw error;
      return fault;
    }
  }

  async #record(job: Job, outcome: BuildOutcome & { isReady: true }): Promise<void> {
    const { store, clock, discard, becameReady } = this.#services;
    const { image, defaultUser, defaultWorkdir, envVars, checkpoint } = outcome;
    const guestVersion = checkpoint === null ? null : RUNTIME_VERSION;
    const result = { image, defaultUser, defaultWorkdir, envVars, guestVersion, checkpoint };
    const recorded = await store.transaction(({ builds }) => builds.finish(job.id, result, clock.now()));
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

async function notWaiting(builds: Tables["builds"], id: string): Promise<Fault> {
  const { status, reason } = (await builds.byId(id)) ?? { status: "gone", reason: null };
  const why = reason === null ? "" : ` (${reason.message})`;
  return new Fault(400, `build "${id}" is ${status}${why}; only one that waits can be started. Ask for a new one`);
}
