/** Brings a sandbox to `running`: uses it as it is, resumes it, or waits for the current transition. */
import type { Sandbox } from "../../../store/sandboxes.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import { beingEnded } from "../sandbox-status.ts";
import { untilSettled } from "../transition-wait.ts";
import type { ResumeOptions, Resuming } from "./resuming.ts";

export interface BringUpOptions {
  read(): Promise<Sandbox>;
  resumeOptions: ResumeOptions | ((sandbox: Sandbox) => ResumeOptions);
  /** Undefined: it no longer runs, so look again. */
  whenRunning(sandbox: Sandbox, now: number): Promise<Sandbox | undefined>;
  /** Whether a resume begun by another caller will do. If not, this caller waits for it and looks again. */
  acceptsStart(start: ResumeOptions): boolean;
  /** Extends the run, so that a caller that joined a resume gets no less time than it asked for. */
  afterJoin(sandbox: Sandbox, now: number): Promise<Sandbox | undefined>;
}

export interface BroughtUp {
  sandbox: Sandbox;
  resumed: boolean;
}

/** `prioritise` is called for each sandbox that a caller waits for. */
export function bringUp(
  core: LifecycleCore,
  { resuming, prioritise }: { resuming: Resuming; prioritise(id: string): void },
  id: string,
  how: BringUpOptions,
): Promise<BroughtUp> {
  const { clock, expiry } = core;
  return untilSettled<BroughtUp>(core, {
    id,
    read: how.read,
    prioritise: prioritise,
    attempt: async (sandbox, status, now) => {
      if (status === "over") throw beingEnded(id);
      if (status === "running") {
        const running = await how.whenRunning(sandbox, now);
        if (running === undefined) return "again";
        expiry.noteEnd(running.endAt);
        return { done: { sandbox: running, resumed: false } };
      }
      const underWay = resuming.underWay(sandbox);
      if (underWay !== undefined) {
        const joins = how.acceptsStart(underWay.options);
        const started = await (joins ? underWay.result : underWay.result.catch(() => undefined));
        if (started === undefined || !joins) return "again";
        const joined = (await how.afterJoin(started, clock.now())) ?? started;
        expiry.noteEnd(joined.endAt);
        return { done: { sandbox: joined, resumed: true } };
      }
      if (status !== "paused") return "wait";
      const options = typeof how.resumeOptions === "function" ? how.resumeOptions(sandbox) : how.resumeOptions;
      const started = await resuming.start(sandbox, options);
      return started === undefined ? "again" : { done: { sandbox: started, resumed: true } };
    },
  });
}
