/** Checkpoints of a sandbox that keeps running, for snapshots and forks. */
import type { CheckpointOptions } from "../../../contract/internal/host.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { captureFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";

/** A checkpoint, and the row of its sandbox at that time. */
interface Captured {
  checkpoint: string;
  source: Sandbox;
}

/**
 * Makes a checkpoint of the sandbox as it is now. No row names it yet, so the caller records or removes it. Undefined:
 * the sandbox no longer runs, so look again.
 */
export async function capture(
  core: LifecycleCore,
  sandbox: Sandbox,
  options: CheckpointOptions,
): Promise<Captured | undefined> {
  const { store, host, clock, ids } = core;
  const begin = () => store.sandboxes.beginSnapshot(sandbox, clock.now());
  const begun = await core.begin(sandbox.id, begin, { state: "snapshotting" });
  if (begun === undefined) return undefined;
  core.captured.add(begun.id);
  const checkpoint = ids.uuid();
  let failure: { cause: unknown } | undefined;
  try {
    await host.snapshot(begun.id, checkpoint, { ...options, owner: begun.teamId });
  } catch (cause) {
    failure = { cause };
  }
  await core.takeBack(begun).finally(() => core.captured.delete(begun.id));
  if (failure !== undefined) throw captureFault(failure.cause, begun.id);
  return { checkpoint, source: begun };
}
