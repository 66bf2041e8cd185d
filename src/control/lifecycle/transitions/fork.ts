/** Copies a running sandbox: leases first, then one checkpoint, then the copies. */
import type { Fault } from "../../../contract/fault.ts";
import type { Team } from "../../../store/people.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import { capture } from "./capture.ts";
import { createFromSandbox } from "./creation.ts";

/** A Fault stands in place of each copy that failed. Undefined: the sandbox no longer runs, so look again. */
export async function fork(
  core: LifecycleCore,
  team: Team,
  sandbox: Sandbox,
  count: number,
  seconds: number,
): Promise<(Sandbox | Fault)[] | undefined> {
  using held = new DisposableStack();
  const { leases, refusal } = await core.quota.takeUpTo(team, count, { memoryMB: sandbox.memoryMB });
  for (const lease of leases) held.use(lease);
  const refused = Array.from({ length: count - leases.length }, refusal);
  // Without a lease, do not freeze the sandbox for a checkpoint.
  if (leases.length === 0) return refused;
  const captured = await capture(core, sandbox, { memory: true, temporary: true });
  if (captured === undefined) return undefined;
  const { checkpoint, source } = captured;
  try {
    core.listener.onEvent("checkpointed", source, `forked, ${leases.length} times`);
    return [...(await createFromSandbox(core, team, source, checkpoint, leases, seconds)), ...refused];
  } finally {
    core.checkpointRemoval.enqueue([checkpoint]);
  }
}
