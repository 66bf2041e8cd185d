/**
 * Taking back what there was before the server stopped. The rows say what there should be, the host what there is:
 *
 *   row            sandbox alive   checkpoint there   becomes
 *   running        yes                                running
 *   running        no                                 killing
 *   pausing        yes             either             running, as if nobody had asked
 *   pausing        no              yes                paused
 *   pausing        no              no                 killing
 *   paused                         either             paused
 *   resuming       is not kept     either             paused
 *   snapshotting   yes                                running
 *   snapshotting   no                                 killing
 *   killing                                           killing, and the takedown is finished
 *
 * A wish to kill turns every other outcome into `killing`.
 */
import type { Belongings } from "../../host/host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Life } from "./lifecycle-services.ts";

export async function recover(life: Life): Promise<void> {
  const { store, host, takedown, expiry } = life;
  const { sandboxes } = store;
  const [running, pausing, snapshotting] = [
    await sandboxes.inState("running"),
    await sandboxes.inState("pausing"),
    await sandboxes.inState("snapshotting"),
  ];
  const [paused, resuming] = [await sandboxes.inState("paused"), await sandboxes.inState("resuming")];
  const named = [...pausing, ...paused, ...resuming].flatMap(({ checkpoint }) => checkpoint ?? []);
  const there = await host.adopt({
    sandboxes: new Set([...running, ...pausing, ...snapshotting].map(({ id }) => id)),
    checkpoints: new Set([...named, ...(await store.templates.checkpoints())]),
  });
  takedown.enqueue(await sandboxes.inState("killing"));
  for (const row of running) await settleRunning(life, row, there);
  for (const row of pausing) await settlePausing(life, row, there);
  for (const row of snapshotting) await settleSnapshotting(life, row, there);
  for (const row of resuming) takeDownIfEnded(life, await sandboxes.abandonResume(row));
  for (const row of [...paused, ...resuming]) reportIfMissing(life, row, there);
  const next = await sandboxes.earliestEnd();
  if (next !== undefined) expiry.noteEnd(next);
}

async function settleRunning(life: Life, row: Sandbox, there: Belongings): Promise<void> {
  if (there.sandboxes.has(row.id)) life.presence.begin(row.id);
  else takeDownIfEnded(life, await life.store.sandboxes.kill(row));
}

async function settlePausing(life: Life, row: Sandbox, there: Belongings): Promise<void> {
  const { sandboxes } = life.store;
  const hasCheckpoint = row.checkpoint !== null && there.checkpoints.has(row.checkpoint);
  if (there.sandboxes.has(row.id)) {
    const back = await sandboxes.abandonPause(row);
    if (hasCheckpoint && row.checkpoint !== null) life.discards.enqueue([row.checkpoint]);
    if (back?.state === "running") life.presence.begin(row.id);
    takeDownIfEnded(life, back);
    return;
  }
  if (!hasCheckpoint) await sandboxes.kill(row);
  const done = await sandboxes.finishPause(row);
  if (done?.state === "paused") life.journal.tell("paused", done, "the server was restarted meanwhile");
  takeDownIfEnded(life, done);
}

async function settleSnapshotting(life: Life, row: Sandbox, there: Belongings): Promise<void> {
  const { sandboxes } = life.store;
  if (!there.sandboxes.has(row.id)) await sandboxes.kill(row);
  const back = await sandboxes.finishSnapshot(row);
  if (back?.state === "running") life.presence.begin(row.id);
  takeDownIfEnded(life, back);
}

function takeDownIfEnded(life: Life, row: Sandbox | undefined): void {
  if (row?.state !== "killing") return;
  life.journal.tell("killed", row, "it was gone, or wanted gone, when the server started");
  life.takedown.enqueue([row]);
}

/** Nothing is thrown away for it: whoever lost the checkpoint may bring it back. */
function reportIfMissing(life: Life, { id, checkpoint }: Sandbox, there: Belongings): void {
  if (checkpoint !== null && there.checkpoints.has(checkpoint)) return;
  const event = "the checkpoint of a paused sandbox is not on this machine; it cannot be resumed";
  life.log.write({ level: "error", event, sandbox: id, checkpoint });
}
