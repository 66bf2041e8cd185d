/** Checks limits of the host that would cause failures later. */
import { statfsSync } from "node:fs";
import { type MemoryLeft, memoryLeft } from "../../system/cgroup/memory-left.ts";
import { DataFolder } from "../../system/data-folder.ts";
import { openFilesMax } from "../../system/open-files.ts";
import { canRaiseUserLimits } from "../../system/user-limits.ts";
import { readSetting, SETTINGS } from "../host-changes.ts";
import { broken, type Check, type DoctorOptions, degraded, type Finding, ok } from "./finding.ts";

const DISK_WANTED_BYTES = 20 * 1024 ** 3;
const DISK_MIN_BYTES = 4 * 1024 ** 3;
const OPEN_FILES_WANTED = 4096;

export function limitChecks(options: DoctorOptions): Check[] {
  return [
    { name: "inotify", run: () => setting("fs.inotify.max_user_instances") },
    { name: "processes", run: () => setting("kernel.pid_max") },
    { name: "open files", run: openFiles },
    { name: "user limits", run: userLimits },
    { name: "memory", run: async () => memory(memoryLeft(cgroupOf(options)), options.memoryReserve) },
    { name: "disk", run: () => disk(options.dataFolder) },
  ];
}

async function setting(name: string) {
  const wanted = SETTINGS.find((candidate) => candidate.name === name)?.atLeast ?? 0;
  const now = Number(readSetting(name));
  return ok(now >= wanted ? `${name} is ${now}` : `${name} is ${now}; start-up raises it to ${wanted}`);
}

async function openFiles() {
  const most = openFilesMax();
  if (most >= OPEN_FILES_WANTED) return ok(`${most} for each process`);
  return degraded(
    `only ${most} for each process`,
    "programs with many files or connections fail inside sandboxes",
    "raise the hard limit of the shell that starts the server: ulimit -Hn 1048576",
  );
}

async function userLimits() {
  if (canRaiseUserLimits()) return ok("none for all sandboxes together; each has its own");
  return degraded(
    "root may not raise its limits here (no CAP_SYS_RESOURCE)",
    "pending signals, message queues and processes of all sandboxes count together: a sandbox whose root uses many ids " +
      "can use them up",
    "start the server with CAP_SYS_RESOURCE, or from a shell without these limits: ulimit -i -q -u -l unlimited",
  );
}

function cgroupOf({ dataFolder }: DoctorOptions): string {
  return DataFolder.isAt(dataFolder) ? new DataFolder(dataFolder).cgroup : "/";
}

export function memory({ totalBytes, availableBytes }: MemoryLeft, reservePercent = 0): Finding {
  const gib = (bytes: number) => `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
  const text = `${gib(availableBytes)} of ${gib(totalBytes)} are available`;
  const reserveBytes = (totalBytes * reservePercent) / 100;
  if (reservePercent === 0) return ok(`${text}; there is no reserve`);
  if (availableBytes >= reserveBytes) return ok(`${text}; the reserve is ${gib(reserveBytes)}`);
  return degraded(
    `${text}, less than the reserve of ${gib(reserveBytes)}`,
    "no sandbox starts, and idle ones with autoPause are paused",
    "end programs that use much memory, or set a smaller SANDLOT_MEMORY_RESERVE",
  );
}

async function disk(folder: string) {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const text = `${Math.floor(free / 1024 ** 3)} GiB free at ${folder}`;
  if (free >= DISK_WANTED_BYTES) return ok(text);
  const fix = "free some room, or put SANDLOT_DATA on a larger disk";
  if (free < DISK_MIN_BYTES) return broken(text, fix);
  return degraded(text, "sandboxes may fill the disk together before each reaches its own limit", fix);
}
