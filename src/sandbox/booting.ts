/**
 * Boots a sandbox, in this order:
 *
 *   slot and ids → disk → runtime.create → veth → record → runtime.start → guest answers → mounts leave the host's view
 */
import { Fault } from "../contract/fault.ts";
import { HOSTNAME } from "../contract/hostname.ts";
import type { Egress, SandboxKind, VolumeMount } from "../contract/internal/host.ts";
import type { GuestSettings } from "../contract/runtime/guest-control.ts";
import { Disks } from "../images/disk/disks.ts";
import type { Processors } from "../system/cgroup/processors.ts";
import type { IdRange } from "../system/id-range.ts";
import type { IdRanges } from "../system/id-ranges.ts";
import type { Lower } from "../system/mount/mount-job.ts";
import type { Mounts } from "../system/mount/mounts.ts";
import { openFilesMax } from "../system/open-files.ts";
import { userLimitsFor } from "../system/user-limits.ts";
import { makeFolder, takeAllocation } from "./allocation.ts";
import type { CheckpointFolder } from "./checkpoint/checkpoint-folder.ts";
import { OWN_FOLDER } from "./checkpoint/manifest.ts";
import type { GuestClient } from "./guest-link/guest-client.ts";
import { putGuestFirst } from "./guest-link/guest-priority.ts";
import { ListenSignal } from "./guest-link/listen-signal.ts";
import { makeBootIdFile, makeControlSecret, meminfoMount, writeMeminfoFile } from "./mounted-files.ts";
import type { Network } from "./network/network.ts";
import type { OutsideMount } from "./runtime/runtime.ts";
import type { Runtimes } from "./runtime/runtimes.ts";
import { isAlive, type SandboxRecord, writeNewRecord } from "./sandbox-record.ts";
import { startFault } from "./start-fault.ts";
import type { Volumes } from "./volume/volume-disks.ts";
import { VolumeMounts } from "./volume-mounts.ts";

/** The checkpoint that a booted sandbox's disk is copied from, if the disk is not a fresh one. */
export interface DiskOrigin {
  disk: CheckpointFolder;
  /** The sandbox has another id than the one recorded on the disk. */
  copy: boolean;
}

export interface StartRequest {
  id: string;
  kind: SandboxKind;
  egress: Egress;
  folder: string;
  cgroup: string;
  lowers: readonly Lower[];
  network: Network;
  ranges: IdRanges;
  disks: Disks;
  processors: Processors;
  volumes: Volumes;
  /** Settings from the request; undefined for a sandbox of the ready pool. */
  settings: GuestSettings | undefined;
  guestOf(record: SandboxRecord): GuestClient;
  removeResources(slot: number, ids: IdRange, disk: string): Promise<void>;
}

interface Boot extends StartRequest {
  origin: DiskOrigin | undefined;
  guestFolder: string;
  runtimes: Runtimes;
  mounts: Mounts;
  volumeMounts: readonly VolumeMount[];
}

/** Resolves when the guest has responded and has its settings, if any. */
export async function boot(request: Boot): Promise<SandboxRecord> {
  const { id, kind, origin, egress, folder, cgroup, guestFolder, network, disks } = request;
  const runtimeName = request.runtimes.nameFor(kind);
  const { slot, ids } = await takeAllocation(request.ranges, network, () => network.take());
  const diskName = Disks.newName();
  try {
    const runtime = request.runtimes.of(runtimeName);
    using volumes = await VolumeMounts.hold(request.volumes, request.volumeMounts);
    makeFolder(folder, ids);
    await volumes.mapTo(ids, folder, request.mounts);
    const extraMounts = [meminfoMount(folder)];
    const disk =
      origin === undefined
        ? await disks.attach(diskName, kind.diskSizeMB, request.lowers, folder, ids, extraMounts)
        : await disks.attachCopy(diskName, origin.disk.disk, request.lowers, folder, ids, extraMounts);
    const control = makeControlSecret(folder, ids);
    const meminfoFile = writeMeminfoFile(folder, kind.memoryMB, ids);
    const { pid, rootPid, mounts } = await runtime.create({
      id,
      folder,
      root: disk.root,
      cgroup,
      ids,
      size: { cpuCount: kind.cpuCount, memoryMB: kind.memoryMB, processors: request.processors.take(kind.cpuCount) },
      sharesMemory: kind.sharesMemory,
      hostname: HOSTNAME,
      guestFolder,
      meminfoFile,
      bootIdFile: makeBootIdFile(folder),
      controlSecretFile: control.path,
      volumes: volumes.mounts,
      copy: origin?.copy ?? false,
      openFilesMax: openFilesMax(),
      userLimits: userLimitsFor(kind.memoryMB),
    });
    if (runtime.showsProcesses) putGuestFirst(pid);
    await network.setEgress(slot, egress);
    await network.plug(slot, pid, runtime.choosesSource);
    const record = writeNewRecord(request, {
      slot,
      disk: diskName,
      firstId: ids.first,
      pid,
      rootPid,
      controlSecret: control.secret,
      wall: runtimeName,
      guestFolder,
      mounts: mounts.map((mount) => withOwnFolder(volumes.named(mount), folder)),
    });
    // A guest with this file touches it as soon as it listens.
    using sign = mounts.some(({ outside }) => outside === meminfoFile) ? new ListenSignal(meminfoFile) : undefined;
    await runtime.start(id, pid);
    const guest = request.guestOf(record);
    const alive = () => isAlive(record);
    const { settings } = request;
    await (settings ? guest.readyWith(settings, alive, sign) : guest.ready(alive, sign));
    await disk.release(volumes.mounts.length === 0 ? [] : undefined);
    return record;
  } catch (cause) {
    await request.removeResources(slot, ids, diskName);
    // The volumes do not fit; the caller can fix that, so the error is passed on unchanged.
    if (cause instanceof Fault && cause.status === 422) throw cause;
    throw startFault(`sandbox ${id} could not be booted`, cause);
  }
}

function withOwnFolder({ inside, outside }: OutsideMount, folder: string): OutsideMount {
  return { inside, outside: outside.startsWith(`${folder}/`) ? OWN_FOLDER + outside.slice(folder.length) : outside };
}
