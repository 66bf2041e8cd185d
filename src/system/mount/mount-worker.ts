/** The thread for blocking mount calls, so that the server's own thread never waits for a disk. */
import { closeSync, openSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { answerJobs } from "../job-thread.ts";
import {
  detachMount,
  holdInMemory,
  MS_NOATIME,
  MS_NODEV,
  MS_NOEXEC,
  MS_NOSUID,
  MS_RDONLY,
  mount,
  reflink,
  syncFilesystem,
  unlockMemory,
  withLoopDevice,
} from "../syscalls.ts";
import { lacksNames, mapFolder, mountDisk, mountOverlay, release, showImage } from "./layers.ts";
import { deviceOf } from "./loop-devices.ts";
import type { MountJob } from "./mount-job.ts";
import { unwrittenBytes } from "./unwritten.ts";

declare const self: Worker;

answerJobs(self, performAll);

/** Fewer values than jobs: the last performed job was a reflink that failed, so the rest was skipped. */
function performAll(jobs: readonly MountJob[]): boolean[] {
  const values: boolean[] = [];
  for (const job of jobs) {
    const value = perform(job) !== false;
    values.push(value);
    if (job.kind === "reflink" && !value) break;
  }
  return values;
}

/** False: the job had no effect, for the reason that its kind gives. */
function perform(job: MountJob): unknown {
  switch (job.kind) {
    case "loop":
      return withLoopDevice(job.image, (device) =>
        mount(device, job.target, job.type, MS_NODEV | MS_NOATIME, job.options),
      );
    case "look":
      return withLoopDevice(job.image, (device) =>
        mount(device, job.target, job.type, MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOEXEC, ""),
      );
    case "device":
      return mount(job.device, job.target, job.type, MS_NODEV | MS_NOATIME, job.options);
    case "volume":
      return mountVolume(job);
    case "disk":
      return mountDisk(job);
    case "overlay":
      return mountOverlay(job);
    case "map":
      return mapFolder(job);
    case "image":
      return showImage(job);
    case "tmpfs":
      return mount("tmpfs", job.target, "tmpfs", MS_NODEV | MS_NOSUID, job.options);
    case "detach":
      return detachMount(job.target);
    case "release":
      return release(job);
    case "reflink":
      return reflink(job.source, job.target);
    case "reflink-written":
      return isWritten(job.source, job.unwrittenMax) && reflink(job.source, job.target);
    case "flush":
      return syncFilesystem(job.folder);
    case "lacks-names":
      return lacksNames(job);
    case "lock-file":
      return holdInMemory(job.path);
    case "unlock-folder":
      return unlockMemory(job.folder);
    default:
      return job satisfies never;
  }
}

/** False if unknown. */
function isWritten(path: string, unwrittenMax: number): boolean {
  const file = openSync(path, "r");
  try {
    return (unwrittenBytes(file) ?? Number.POSITIVE_INFINITY) <= unwrittenMax;
  } finally {
    closeSync(file);
  }
}

function mountVolume({ image, target, options }: Extract<MountJob, { kind: "volume" }>): void {
  const mountDevice = (device: string) => mount(device, target, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME, options);
  if (withLoopDevice(image, mountDevice, { alone: true })) return;
  const device = deviceOf(image);
  // The volume is being checked, or its last user is detaching it; both are over in a moment.
  if (device === undefined) throw new Fault(503, "the volume is being checked or unmounted; retry in a moment");
  mountDevice(device);
}
