/** The calls that bring a sandbox to `running`: what each does with one that runs, is paused, or is being resumed. */
import { Fault } from "../../../contract/fault.ts";
import type { WakeRequest } from "../../../contract/internal/directory.ts";
import type { Team } from "../../../store/people.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import { newEnd } from "../lifecycle-listener.ts";
import { notFound, statusOf } from "../sandbox-status.ts";
import { endWithin, lastEnd } from "../timers/run-length.ts";
import type { BringUpOptions } from "./bring-up.ts";
import type { ResumeOptions } from "./resuming.ts";
import { admit } from "./wake.ts";

/** Minimum run after a wake by traffic. */
const WAKE_MIN_SECONDS = 300;

export interface ConnectOptions {
  seconds: number;
  memory: boolean;
  onlyExtend: boolean;
}

/** Running: sets or extends the end. Paused: resumes with that end. */
export function connectOptions(
  core: LifecycleCore,
  team: Team,
  id: string,
  { seconds, memory, onlyExtend }: ConnectOptions,
): BringUpOptions {
  const { sandboxes } = core.store;
  return {
    read: () => core.sandboxOf(team, id),
    resumeOptions: ({ autoPause }) => {
      if (seconds === 0 && !autoPause) throw overAtOnce(id);
      return { seconds, memory, mintToken: false };
    },
    whenRunning: async (run, now) => {
      // A connect never ends a sandbox that has already run for the team's maximum.
      const change = onlyExtend || lastEnd(team, run) <= now ? sandboxes.extendEnd : sandboxes.setEnd;
      const changed = await change(run, endWithin(team, run, seconds, now), now);
      if (changed !== undefined && changed.endAt !== run.endAt)
        core.listener.onEvent("updated", changed, newEnd(changed));
      return changed;
    },
    acceptsStart: (start) => start.memory === memory,
    afterJoin: (run, now) => sandboxes.extendEnd(run, endWithin(team, run, seconds, now), now),
  };
}

/** Running: Fault 409. Paused: resumes with a new access token. */
export function resumeOptions(
  core: LifecycleCore,
  team: Team,
  id: string,
  { seconds, memory, autoPause }: Omit<ResumeOptions, "mintToken">,
): BringUpOptions {
  const whenRunning = async () => {
    throw new Fault(409, `sandbox "${id}" is already running`);
  };
  return {
    read: async () => {
      const sandbox = await core.sandboxOf(team, id);
      if (statusOf(sandbox, core.clock.now()) === "over") throw notFound(id);
      return sandbox.state === "snapshotting" ? whenRunning() : sandbox;
    },
    resumeOptions: { seconds, memory, autoPause, mintToken: true },
    whenRunning,
    acceptsStart: (start) => start.mintToken && start.memory === memory && start.autoPause === autoPause,
    afterJoin: (run, now) => core.store.sandboxes.extendEnd(run, endWithin(team, run, seconds, now), now),
  };
}

/** Running: leaves it as it is. Paused: resumes if the request may wake it. */
export function wakeOptions(core: LifecycleCore, id: string, request: WakeRequest): BringUpOptions {
  return {
    read: async () => admit(await core.store.sandboxes.byId(id), id, request, core.clock.now()),
    resumeOptions: ({ timeoutSeconds }) => ({
      seconds: Math.max(WAKE_MIN_SECONDS, timeoutSeconds),
      memory: true,
      mintToken: false,
      note: `woken by a request to port ${request.port}`,
    }),
    whenRunning: async (sandbox) => sandbox,
    // A request that may not wake a sandbox does not share the failure of another caller's start.
    acceptsStart: () => request.mayWake,
    afterJoin: async (sandbox) => sandbox,
  };
}

/** A connect asks for a sandbox to work with; it must not delete one. */
function overAtOnce(id: string): Fault {
  return new Fault(
    400,
    `sandbox "${id}" is paused and has no autoPause: with timeout 0 it would be deleted as soon as it is resumed; ` +
      "send a timeout of at least 1, or delete it",
  );
}
