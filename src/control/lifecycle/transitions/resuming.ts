/**
 * Resumes sandboxes. Callers that want the same resume of the same paused sandbox share one start and its result. The
 * checkpoint is kept until the row says `running`, so a failure at any step leaves the sandbox paused as it was.
 */
import { described } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import type { ResumeSandbox } from "../../../contract/internal/host.ts";
import { RUNTIME_VERSION } from "../../../contract/runtime/version.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { kindForTeam } from "../../templates/shared-memory.ts";
import { kindOfSandbox } from "../../templates/template-lookup.ts";
import { hostMounts } from "../../volumes/volume-mounts.ts";
import { egressOf } from "../egress.ts";
import { resumeFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import { beingEnded } from "../sandbox-status.ts";
import { secondsMax } from "../timers/run-length.ts";

const ACCESS_TOKENS_KEPT = 16;

export interface ResumeOptions {
  /** Counted from when it is up, and cut to the team's maximum. */
  seconds: number;
  /** False: boot from its files. */
  memory: boolean;
  /** Undefined: unchanged. */
  autoPause?: boolean | undefined;
  /** Adds a new access token to the existing ones. */
  mintToken: boolean;
  /** A line for the sandbox's log. */
  note?: string;
}

interface ResumeUnderWay {
  /** Execution ids of the paused run and of the new one. */
  from: string;
  to: string;
  options: ResumeOptions;
  /** Undefined: the sandbox was no longer paused. */
  result: Promise<Sandbox | undefined>;
}

export class Resuming {
  readonly #underWay = new Map<string, ResumeUnderWay>();

  constructor(private readonly core: LifecycleCore) {}

  /**
   * The start in progress that this row belongs to. A start whose run is already over does not count, even if its
   * promise has not settled yet.
   */
  underWay({ id, state, executionId }: Sandbox): ResumeUnderWay | undefined {
    const start = this.#underWay.get(id);
    const isMeant =
      (state === "paused" && executionId === start?.from) || (state === "resuming" && executionId === start?.to);
    return isMeant ? start : undefined;
  }

  /** Starts a paused sandbox. Undefined: it is no longer paused, so look again. */
  start(sandbox: Sandbox, options: ResumeOptions): Promise<Sandbox | undefined> {
    const { id, executionId } = sandbox;
    const to = this.core.ids.uuid();
    const result = this.#start(sandbox, to, options).finally(() => {
      if (this.#underWay.get(id)?.to === to) this.#underWay.delete(id);
    });
    this.#underWay.set(id, { from: executionId, to, options, result });
    // The start continues when its caller disconnects, and a close waits for it.
    this.core.background.run("resume failed", () =>
      result.then(
        () => undefined,
        () => undefined,
      ),
    );
    return result;
  }

  async #start(paused: Sandbox, executionId: string, options: ResumeOptions): Promise<Sandbox | undefined> {
    const { store, ids, reachability, clock, quota, quietPeriod, checkpointRemoval } = this.core;
    const team = await store.people.team(paused.teamId);
    if (team === undefined) throw new Fault(500, `the team of sandbox "${paused.id}" is not in the store`);
    const kind = kindForTeam(await kindOfSandbox(store, paused), team, this.core.sharedMemory);
    using _lease = await quota.take(team, { id: paused.id, memoryMB: paused.memoryMB });
    const begin = () => store.sandboxes.beginResume(paused, executionId);
    const begun = await this.core.begin(paused.id, begin, { state: "resuming", executionId });
    if (begun === undefined) return undefined;
    const checkpoint = begun.checkpoint ?? "";
    const tokens = begun.secure && options.mintToken ? [...begun.tokens, ids.sandboxToken()] : begun.tokens;
    const accessTokens = tokens.slice(-ACCESS_TOKENS_KEPT);
    const memory = options.memory && begun.checkpointMemory;
    try {
      const request: ResumeSandbox = {
        id: begun.id,
        checkpoint,
        memory,
        kind,
        envVars: begun.envVars,
        accessTokens,
        egress: egressOf(begun, await this.core.privateRangesOf(begun.teamId)),
        volumes: hostMounts(begun.volumeMounts),
      };
      await quietPeriod.run(() => this.#resumeOnHost(request));
    } catch (cause) {
      await this.core.takeBack(begun);
      throw resumeFault(cause, begun.id);
    }
    // Before the row is written, so that an expiry right after it finds a run to end.
    reachability.begin(begun);
    const startedAt = clock.now();
    const running = await this.core.untilChanged("a resume", begun, (run) =>
      store.sandboxes.finishResume(run, {
        startedAt,
        endAt: startedAt + Math.min(options.seconds, secondsMax(team)) * 1000,
        tokens: accessTokens,
        autoPause: options.autoPause ?? begun.autoPause,
        guestVersion: memory ? begun.guestVersion : RUNTIME_VERSION,
      }),
    );
    const row = running ?? (await this.core.untilRecorded("a resume", () => store.sandboxes.byId(begun.id)));
    // The row may have ended since. Only a row that still names the checkpoint needs it.
    if (row?.checkpoint !== checkpoint) checkpointRemoval.enqueue([checkpoint]);
    if (row === undefined) throw beingEnded(begun.id);
    if (running === undefined) throw new Fault(500, `sandbox "${begun.id}" left "resuming" while it was resumed`);
    return this.#recorded(running, options);
  }

  /** Repeats an unexpected failure once: its reason may have passed, and the checkpoint is unchanged. */
  async #resumeOnHost(request: ResumeSandbox): Promise<void> {
    const { host, log } = this.core;
    try {
      await host.resume(request);
    } catch (cause) {
      if (Fault.from(cause).status !== 500) throw cause;
      log.write({
        level: "warn",
        event: "resume repeated after a failure",
        sandbox: request.id,
        error: described(cause),
      });
      await host.resume(request);
    }
  }

  async #recorded(running: Sandbox, options: ResumeOptions): Promise<Sandbox> {
    const { reachability, listener, log } = this.core;
    if (running.state === "killing") {
      this.core.endSoon(running, "killed");
      throw beingEnded(running.id);
    }
    log.write({ level: "info", event: "sandbox resumed", sandbox: running.id, memory: options.memory });
    listener.onEvent("resumed", running, options.note);
    await this.core.finishReturnToRunning(running);
    if (!reachability.isUp(running.id)) throw beingEnded(running.id);
    return running;
  }
}
