/** Waits for a sandbox in transition: one being paused, resumed or copied. Bounded in time and in rounds. */
import { scaled } from "../../base/time-factor.ts";
import type { Fault } from "../../contract/fault.ts";
import { TRANSITION_ROUNDS_MAX } from "../../contract/limits.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { LifecycleCore } from "./lifecycle-core.ts";
import { inTransition, type SandboxStatus, statusOf } from "./sandbox-status.ts";

/** How long a call waits for a sandbox in transition. TRANSITION_ROUNDS_MAX bounds the number of changes. */
export const TRANSITION_WAIT_MS = scaled(60_000);

/** `again`: the row has changed since it was read. `wait`: nothing can be done with it yet. */
export type Attempt<T> = { done: T } | "again" | "wait";

interface TransitionWait<T> {
  id: string;
  read(): Promise<Sandbox>;
  attempt(sandbox: Sandbox, status: SandboxStatus, now: number): Promise<Attempt<T>>;
  /** Called for each sandbox that a caller waits for. */
  prioritise(id: string): void;
  rounds?: number;
  /** The fault when the time or the rounds run out. */
  whenBusy?: (() => Fault) | undefined;
}

/** Reads the sandbox and attempts the work, until it is done or the limits are reached. */
export async function untilSettled<T>(core: LifecycleCore, wait: TransitionWait<T>): Promise<T> {
  const { clock, changes, reachability } = core;
  const { id, rounds = TRANSITION_ROUNDS_MAX, whenBusy = () => inTransition(id) } = wait;
  const deadline = clock.now() + TRANSITION_WAIT_MS;
  for (let round = 0; round <= rounds; round++) {
    using watch = changes.watch(id);
    const sandbox = await wait.read();
    const now = clock.now();
    const status = statusOf(sandbox, now);
    // Hidden while its row says `running`: the call that gave up a pause is about to show it again.
    const isHidden = status === "running" && reachability.isHidden(id);
    const outcome = await wait.attempt(sandbox, isHidden ? "in-transition" : status, now);
    if (typeof outcome === "object") return outcome.done;
    if (outcome === "again") continue;
    wait.prioritise(id);
    if (!(await watch.within(waitLeft(deadline, clock.now())))) break;
  }
  throw whenBusy();
}

/** Never longer than the whole wait, even when the wall clock has been set back. */
export function waitLeft(deadline: number, now: number): number {
  return Math.min(deadline - now, TRANSITION_WAIT_MS);
}
