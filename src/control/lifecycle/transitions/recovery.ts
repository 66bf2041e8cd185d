/**
 * Recovers sandboxes after a restart. The rows say what should exist, the host says what does:
 *
 *   row            sandbox alive   checkpoint there   becomes
 *   running        yes                                running
 *   running        no                                 killing
 *   pausing        yes             either             running; the pause is dropped
 *   pausing        no              yes                paused
 *   pausing        no              no                 killing
 *   paused                         either             paused
 *   resuming       is not kept     either             paused
 *   snapshotting   yes                                running
 *   snapshotting   no                                 killing
 *   killing                                           killing, and the removal finishes
 *
 * A request to kill turns every other outcome into `killing`.
 */
import type { Sandbox } from "../../../store/sandboxes.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";

/** The sandboxes and checkpoints that the host has adopted. */
interface Found {
  sandboxes: ReadonlySet<string>;
  checkpoints: ReadonlySet<string>;
}

export async function recover(core: LifecycleCore): Promise<void> {
  const { store, host, removal, expiry } = core;
  const { sandboxes } = store;
  const [running, pausing, snapshotting] = [
    await sandboxes.inState("running"),
    await sandboxes.inState("pausing"),
    await sandboxes.inState("snapshotting"),
  ];
  const [paused, resuming] = [await sandboxes.inState("paused"), await sandboxes.inState("resuming")];
  const named = [...pausing, ...paused, ...resuming].flatMap(({ checkpoint }) => checkpoint ?? []);
  const adopted = await host.adopt({
    sandboxes: [...running, ...pausing, ...snapshotting].map(({ id }) => id),
    checkpoints: [...named, ...(await store.buildsInUse.checkpoints())],
  });
  const there = { sandboxes: new Set(adopted.sandboxes), checkpoints: new Set(adopted.checkpoints) };
  removal.enqueue(await sandboxes.inState("killing"));
  for (const row of running) await settleRunning(core, row, there);
  for (const row of pausing) await settlePausing(core, row, there);
  for (const row of snapshotting) await settleSnapshotting(core, row, there);
  for (const row of resuming) removeIfEnded(core, await sandboxes.abandonResume(row));
  for (const row of [...paused, ...resuming]) reportIfMissing(core, row, there);
  const next = await sandboxes.earliestEnd();
  if (next !== undefined) expiry.noteEnd(next);
}

async function settleRunning(core: LifecycleCore, row: Sandbox, there: Found): Promise<void> {
  if (there.sandboxes.has(row.id)) core.reachability.begin(row);
  else removeIfEnded(core, await core.store.sandboxes.kill(row));
}

async function settlePausing(core: LifecycleCore, row: Sandbox, there: Found): Promise<void> {
  const { sandboxes } = core.store;
  const hasCheckpoint = row.checkpoint !== null && there.checkpoints.has(row.checkpoint);
  if (there.sandboxes.has(row.id)) {
    const back = await sandboxes.abandonPause(row);
    if (hasCheckpoint && row.checkpoint !== null) core.checkpointRemoval.enqueue([row.checkpoint]);
    if (back?.state === "running") core.reachability.begin(row);
    removeIfEnded(core, back);
    return;
  }
  if (!hasCheckpoint) await sandboxes.kill(row);
  const done = await sandboxes.finishPause(row);
  if (done?.state === "paused") core.listener.onEvent("paused", done, "the server was restarted meanwhile");
  removeIfEnded(core, done);
}

async function settleSnapshotting(core: LifecycleCore, row: Sandbox, there: Found): Promise<void> {
  const { sandboxes } = core.store;
  if (!there.sandboxes.has(row.id)) await sandboxes.kill(row);
  const back = await sandboxes.finishSnapshot(row);
  if (back?.state === "running") core.reachability.begin(row);
  removeIfEnded(core, back);
}

function removeIfEnded(core: LifecycleCore, row: Sandbox | undefined): void {
  if (row?.state !== "killing") return;
  core.listener.onEvent("killed", row, "it had ended, or its kill was requested, before the server started");
  core.removal.enqueue([row]);
}

/** The row stays: the operator may bring the checkpoint back. */
function reportIfMissing(core: LifecycleCore, { id, checkpoint }: Sandbox, there: Found): void {
  if (checkpoint !== null && there.checkpoints.has(checkpoint)) return;
  const event = "the checkpoint of a paused sandbox is not on this machine; it cannot be resumed";
  core.log.write({ level: "error", event, sandbox: id, checkpoint });
}
