/**
 * Restores a running sandbox from a checkpoint with memory, in this order: slot and ids → network rules and disk, while
 * the restore tool starts → runtime.restore (connects the network) → record → the processes run.
 */
import { Fault } from "../contract/fault.ts";
import type { RuntimeName } from "../contract/runtime-name.ts";
import { Disks } from "../images/disk/disks.ts";
import { makeFolder, takeAllocation } from "./allocation.ts";
import type { StartRequest } from "./booting.ts";
import type { CheckpointFolder } from "./checkpoint/checkpoint-folder.ts";
import { copyOwnFiles } from "./checkpoint/checkpoints.ts";
import { type MemoryFacts, OWN_FOLDER, volumesIn } from "./checkpoint/manifest.ts";
import { putGuestFirst } from "./guest-link/guest-priority.ts";
import { inheritedFiles, makeBootIdFile, makeControlSecret, meminfoMount, writeMeminfoFile } from "./mounted-files.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { isAlive, type SandboxRecord, writeNewRecord } from "./sandbox-record.ts";
import { startFault } from "./start-fault.ts";
import type { VolumeContentProcesses } from "./volume/content.ts";
import { requireVolumeFiles } from "./volume-files.ts";
import { VolumeMounts } from "./volume-mounts.ts";

interface RestoreRequest extends StartRequest {
  checkpoint: CheckpointFolder;
  memory: MemoryFacts;
  /** The new sandbox is a copy, not the sandbox that was checkpointed. */
  copy: boolean;
  runtimeName: RuntimeName;
  runtime: Runtime;
  content: VolumeContentProcesses;
  /** Waits for a place among concurrent restores. Only light preparation runs before it. */
  turn(): Promise<Disposable>;
}

/** The caller has verified that the memory is intact and fits this machine. */
export async function restoreSandbox(request: RestoreRequest): Promise<SandboxRecord> {
  const { id, kind, checkpoint, memory, egress, folder, cgroup, network, disks, runtime } = request;
  const { slot, ids } = await takeAllocation(request.ranges, network, () =>
    network.takeFor(memory.address, request.id),
  );
  const diskName = Disks.newName();
  const connected = runtime.holdsConnections(Object.keys(memory.files));
  const sockets = { address: memory.address, connected };
  let preparing: Promise<unknown>[] = [];
  try {
    const volumeMounts = volumesIn(memory.mounts);
    using volumes = await VolumeMounts.hold(request.volumes, volumeMounts);
    const grown = await requireVolumeFiles(runtime, request.content, checkpoint.memory, volumeMounts);
    makeFolder(folder, ids);
    await volumes.mapTo(ids, folder, disks.mounts);
    // Made before the guest runs, so the original sandbox's secret never opens this one.
    const controlSecret = makeControlSecret(folder, ids).secret;
    const extraMounts = [meminfoMount(folder)];
    const attaching = disks.attachCopy(diskName, checkpoint.disk, request.lowers, folder, ids, extraMounts);
    preparing = [
      attaching.then(() => writeMeminfoFile(folder, kind.memoryMB, ids)),
      network.setEgress(slot, egress),
      makeOwnFiles(request),
    ];
    const prepared = Promise.all(preparing);
    prepared.catch(() => undefined);
    const { pid, rootPid, left } = await inTurn(request, () =>
      runtime.restore({
        id,
        cgroup,
        ids,
        size: { cpuCount: kind.cpuCount, memoryMB: kind.memoryMB, processors: request.processors.take(kind.cpuCount) },
        sharesMemory: kind.sharesMemory,
        folder,
        root: Disks.rootIn(folder),
        images: checkpoint.memory,
        mounts: memory.mounts.map((mount) => {
          const { inside, outside } = volumes.placed(mount);
          return { inside, outside: outside.replace(OWN_FOLDER, folder) };
        }),
        shared: volumeMounts.length > 0,
        grown,
        prepared,
        plug: (namespace) => network.plugRestored({ slot, namespace, slotAlone: runtime.choosesSource }, sockets, ids),
      }),
    );
    const disk = await attaching;
    const record = writeNewRecord(request, {
      slot,
      disk: diskName,
      firstId: ids.first,
      pid,
      rootPid,
      controlSecret,
      wall: request.runtimeName,
      guestFolder: memory.guestFolder,
      mounts: memory.mounts,
    });
    await network.settle(slot, pid, sockets);
    if (runtime.showsProcesses) putGuestFirst(pid);
    const guest = request.guestOf(record);
    const alive = () => isAlive(record);
    const { settings } = request;
    const released = disk.release(volumeMounts.length === 0 ? left : undefined);
    await Promise.all([settings ? guest.readyWith(settings, alive) : guest.ready(alive), released]);
    return record;
  } catch (cause) {
    // All preparation has stopped before it is undone, whichever step failed.
    await Promise.allSettled(preparing);
    await request.removeResources(slot, ids, diskName);
    // The checkpoint does not fit; the caller can fix that, so the error is passed on unchanged.
    if (cause instanceof Fault && cause.status === 422) throw cause;
    throw startFault(`sandbox ${id} could not be restored; its checkpoint is intact`, cause);
  }
}

/** Runs `work` while holding a restore place. Preparation and the wait for the guest happen outside it. */
async function inTurn<Result>({ turn }: RestoreRequest, work: () => Promise<Result>): Promise<Result> {
  using _permit = await turn();
  return await work();
}

async function makeOwnFiles({ checkpoint, memory, copy, folder }: RestoreRequest): Promise<void> {
  await copyOwnFiles(checkpoint.own, folder, inheritedFiles(memory, copy));
  if (copy) makeBootIdFile(folder);
}
