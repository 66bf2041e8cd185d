/** Waiting for a sandbox that somebody has in hand: being paused, resumed or copied. Bounded in time and in rounds. */

import { scaled } from "../../base/time-factor.ts";
import type { Fault } from "../../contract/fault.ts";
import { TRANSITION_ROUNDS_MAX } from "../../contract/limits.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { LifecycleCore } from "./lifecycle-core.ts";
import { inTransition, type SandboxStatus, statusOf } from "./sandbox-status.ts";

/** How long a call waits for a sandbox that is between two states; TRANSITION_ROUNDS_MAX bounds the changes. */
export const TRANSITION_WAIT_MS = scaled(60_000);

/** `again`: it has changed under the caller's hands. `wait`: there is nothing to do with it yet. */
export type Attempt<T> = { done: T } | "again" | "wait";

interface TransitionWait<T> {
  id: string;
  look(): Promise<Sandbox>;
  attempt(sandbox: Sandbox, status: SandboxStatus, now: number): Promise<Attempt<T>>;
  /** Told of each sandbox that is waited for. */
  hurry(id: string): void;
  rounds?: number;
  /** What is thrown when it could not be done in time. */
  busy?: (() => Fault) | undefined;
}

/** Looks at the sandbox and tries, until it is done, or for as long as can be waited. */
export async function untilSettled<T>(core: LifecycleCore, wait: TransitionWait<T>): Promise<T> {
  const { clock, changes, reachability } = core;
  const { id, rounds = TRANSITION_ROUNDS_MAX, busy = () => inTransition(id) } = wait;
  const deadline = clock.now() + TRANSITION_WAIT_MS;
  for (let round = 0; round <= rounds; round++) {
    using watch = changes.watch(id);
    const sandbox = await wait.look();
    const now = clock.now();
    const status = statusOf(sandbox, now);
    // Hidden though its row says that it runs: whoever gave up a pause is about to show it again.
    const isHidden = status === "running" && reachability.isHidden(id);
    const outcome = await wait.attempt(sandbox, isHidden ? "between" : status, now);
    if (typeof outcome === "object") return outcome.done;
    if (outcome === "again") continue;
    wait.hurry(id);
    if (!(await watch.within(waitLeft(deadline, clock.now())))) break;
  }
  throw busy();
}

/** Never longer than the whole wait, also when the wall clock has been set back. */
export function waitLeft(deadline: number, now: number): number {
  return Math.min(deadline - now, TRANSITION_WAIT_MS);
}
