/** Checkpoints of a sandbox that goes on: what snapshots and forks begin with. */
import type { CheckpointOptions } from "../../host/host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import { captureFault } from "./host-fault.ts";
import type { LifecycleCore } from "./lifecycle-core.ts";

/** A checkpoint, and the row of what it was made of as it was then. */
interface Captured {
  checkpoint: string;
  source: Sandbox;
}

/**
 * A checkpoint that holds the sandbox as it is now. Nothing names it yet, so who calls this records it or removes it.
 * Undefined: the sandbox does not run any more, so look again.
 */
export async function capture(
  core: LifecycleCore,
  sandbox: Sandbox,
  options: CheckpointOptions,
): Promise<Captured | undefined> {
  const { store, host, clock, ids } = core;
  const begun = await store.sandboxes.beginSnapshot(sandbox, clock.now());
  if (begun === undefined) return undefined;
  const checkpoint = ids.uuid();
  let failure: { cause: unknown } | undefined;
  try {
    await host.snapshot(begun.id, checkpoint, { ...options, owner: begun.teamId });
  } catch (cause) {
    failure = { cause };
  }
  const back = await core.untilChanged("a snapshot", begun, store.sandboxes.finishSnapshot);
  if (back !== undefined) await core.backInRunning(back);
  if (failure !== undefined) throw captureFault(failure.cause, begun.id);
  return { checkpoint, source: begun };
}
