/** The OCI spec of a sandbox for crun: what its first process sees and may do. Pure: facts in, JSON out. */
import { existsSync } from "node:fs";
import { CONTROL_SECRET_FILE } from "../../../contract/runtime/guest-control.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { SANDBOX_PIDS_MAX } from "../../../contract/runtime/limits.ts";
import { EMPTY_IN_PROC, HIDDEN_IN_PROC } from "../../../images/guest-layout.ts";
import { ID_COUNT } from "../../../system/id-range.ts";
import { namespaceSettings } from "../../network/namespace-settings.ts";
import {
  bindMount,
  CPU_PERIOD_US,
  firstProcess,
  GUEST_COMMAND,
  guestEnvironment,
  mountPoint,
} from "../guest-process.ts";
import type { NewSandbox, OutsideMount } from "../runtime.ts";
import { FILTER_ANNOTATION } from "./compiled-filter.ts";
import { areIpcBoundsOwn, ipcBounds, tmpfsBounds } from "./image/lasting-memory.ts";
import { SECCOMP_PROFILE } from "./seccomp.ts";

/** The machine has a million in all, and their buffers (64 KiB each way) are charged to no sandbox. */
export const TERMINALS_PER_SANDBOX_MAX = 256;

type SpecInput = Omit<NewSandbox, "id" | "folder" | "userLimits"> & { cgroupV1: boolean };

/**
 * The parts of the host's sysfs that a sandbox sees: the number of processors and memory nodes. The rest shows the
 * disks of every other sandbox in a dozen places, so /sys is an empty folder with just these mounts.
 */
const SHOWN_IN_SYS = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

const READ_ONLY = ["/proc/bus", "/proc/irq", "/proc/sysrq-trigger"];
/**
 * Also read-only, but bound over itself among the mounts. crun handles read-only paths after all mounts, and would
 * mount this one over the mounts in it, which would then exist twice, once writable.
 */
const SETTINGS = "/proc/sys";

const MEMINFO_FILE = "/proc/meminfo";
const DEVPTS = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"];

export function ociSpec(input: SpecInput) {
  const { size } = input;
  const memoryBytes = size.memoryMB * 1024 * 1024;
  const bounds = tmpfsBounds(size.memoryMB);
  const ids = [{ containerID: 0, hostID: input.ids.first, size: ID_COUNT }];
  return {
    ociVersion: "1.0.2",
    hostname: input.hostname,
    root: { path: input.root, readonly: false },
    process: firstProcess(input, GUEST_COMMAND, [
      ...guestEnvironment(input),
      ...(input.meminfoFile === undefined ? [] : [`SANDLOT_MEMORY_FILE=${MEMINFO_FILE}`]),
    ]),
    mounts: [
      mountPoint("/proc", "proc", ["nosuid", "noexec", "nodev"]),
      ...(input.meminfoFile === undefined ? [] : [bindMount(input.meminfoFile, MEMINFO_FILE, "rw", "noexec")]),
      mountPoint("/dev", "tmpfs", ["nosuid", "noexec", "mode=755", ...bounds["/dev"]]),
      mountPoint("/dev/pts", "devpts", [...DEVPTS, `max=${TERMINALS_PER_SANDBOX_MAX}`]),
      mountPoint("/dev/shm", "tmpfs", ["nosuid", "nodev", "noexec", "mode=1777", ...bounds["/dev/shm"]]),
      mountPoint("/run", "tmpfs", ["nosuid", "nodev", "mode=755", ...bounds["/run"]]),
      bindMount(`${input.guestFolder}/sys`, "/sys", "ro", "noexec"),
      ...SHOWN_IN_SYS.filter((path) => existsSync(path)).map((path) => bindMount(path, path, "ro", "noexec")),
      mountPoint("/sys/fs/cgroup", "cgroup", ["nosuid", "noexec", "nodev", "ro"]),
      bindMount(input.guestFolder, GUEST_MOUNT, "ro"),
      bindMount(input.controlSecretFile, CONTROL_SECRET_FILE, "ro", "noexec"),
      bindMount(`${input.root}${SETTINGS}`, SETTINGS, "ro", "noexec"),
      bindMount(input.bootIdFile, `${SETTINGS}/kernel/random/boot_id`, "ro", "noexec"),
      ...hidingMounts(input.guestFolder),
      // Programs on it may be run: a volume is part of the sandbox's own tree, like its disk.
      ...input.volumes.map(({ inside, outside }) => bindMount(outside, inside, "rw")),
    ],
    linux: {
      namespaces: ["user", "pid", "ipc", "uts", "mount", "network", "cgroup", "time"].map((type) => ({ type })),
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: input.cgroup,
      resources: {
        devices: [{ allow: false, access: "rwm" }],
        // With cgroup v1, TCP buffers are counted separately, and only if they have a limit.
        memory: { limit: memoryBytes, swap: memoryBytes, ...(input.cgroupV1 ? { kernelTCP: memoryBytes / 4 } : {}) },
        pids: { limit: SANDBOX_PIDS_MAX },
        cpu: {
          quota: size.cpuCount * CPU_PERIOD_US,
          period: CPU_PERIOD_US,
          ...(size.processors === undefined ? {} : { cpus: size.processors }),
        },
      },
      sysctl: { ...namespaceSettings(0), ...(areIpcBoundsOwn() ? ipcBounds(size.memoryMB) : {}) },
      readonlyPaths: READ_ONLY,
      seccomp: SECCOMP_PROFILE,
    },
  };
}

/** Serialises the spec. The compiled filter, as an annotation, replaces the profile: four fifths of the text. */
export function specText(spec: ReturnType<typeof ociSpec>, compiledFilter?: string): string {
  if (compiledFilter === undefined) return JSON.stringify(spec);
  const { seccomp: _, ...linux } = spec.linux;
  return JSON.stringify({ ...spec, annotations: { [FILTER_ANNOTATION]: compiledFilter }, linux });
}

/** The bind mounts from the host, with their paths inside and outside. */
export function mountedFromOutside(spec: ReturnType<typeof ociSpec>): OutsideMount[] {
  const bound = spec.mounts.filter(({ type, destination }) => type === "bind" && destination !== SETTINGS);
  return bound.map(({ destination, source }) => ({ inside: destination, outside: source }));
}

/**
 * Hides files of /proc with bind mounts, since CRIU cannot restore crun's own masking. Each mount has its own source:
 * of two mounts with the same source and options, CRIU may restore the second without its flags, that is, writable.
 */
function hidingMounts(guestFolder: string) {
  // Files that this kernel lacks need no hiding, and mount points cannot be created in /proc.
  const there = [...HIDDEN_IN_PROC, ...EMPTY_IN_PROC].filter((name) => existsSync(`/proc/${name}`));
  return there.map((name) => bindMount(`${guestFolder}/empty/${name}`, `/proc/${name}`, "ro", "noexec"));
}
