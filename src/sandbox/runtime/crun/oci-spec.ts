/** The OCI description of a sandbox: what its first process sees and may do. Pure: facts in, JSON out. */
import { existsSync } from "node:fs";
import { CONTROL_SECRET_FILE } from "../../../contract/runtime/guest-control.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { SANDBOX_PIDS_MAX } from "../../../contract/runtime/limits.ts";
import { EMPTY_IN_PROC, HIDDEN_IN_PROC } from "../../../images/guest-layout.ts";
import { ID_COUNT } from "../../../system/id-range.ts";
import { namespaceSettings } from "../../network/namespace-settings.ts";
import { CPU_PERIOD_US, firstProcess, GUEST_COMMAND, guestEnvironment } from "../guest-process.ts";
import type { NewSandbox, OutsideMount } from "../runtime.ts";
import { FILTER_ANNOTATION } from "./compiled-filter.ts";
import { areIpcBoundsOwn, ipcBounds, tmpfsBounds } from "./image/lasting-memory.ts";
import { seccompProfile } from "./seccomp.ts";

/** Of one sandbox: the machine has a million in all, and what waits in one is no sandbox's memory (64 KiB each way). */
export const TERMINALS_PER_SANDBOX_MAX = 256;

type SpecInput = Omit<NewSandbox, "id" | "folder" | "userLimits"> & { cgroupV1: boolean };

/**
 * All that a sandbox sees of the machine's sysfs: how many processors and memory nodes there are. The rest names the
 * disks of every other sandbox in a dozen places, so /sys is a bare folder of ours with just these in it.
 */
const SHOWN_IN_SYS = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

const READ_ONLY = ["/proc/bus", "/proc/irq", "/proc/sysrq-trigger"];
/**
 * Read-only as well, but bound over itself among the mounts: crun sees to the others after all mounts, and would lay
 * this one over what is mounted in it, which then is there twice, once writable.
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
      ...(input.meminfoFile === undefined ? [] : [writableBindMount(input.meminfoFile, MEMINFO_FILE)]),
      mountPoint("/dev", "tmpfs", ["nosuid", "noexec", "mode=755", ...bounds["/dev"]]),
      mountPoint("/dev/pts", "devpts", [...DEVPTS, `max=${TERMINALS_PER_SANDBOX_MAX}`]),
      mountPoint("/dev/shm", "tmpfs", ["nosuid", "nodev", "noexec", "mode=1777", ...bounds["/dev/shm"]]),
      mountPoint("/run", "tmpfs", ["nosuid", "nodev", "mode=755", ...bounds["/run"]]),
      bindMount(`${input.guestFolder}/sys`, "/sys"),
      ...SHOWN_IN_SYS.filter((path) => existsSync(path)).map((path) => bindMount(path, path)),
      mountPoint("/sys/fs/cgroup", "cgroup", ["nosuid", "noexec", "nodev", "ro"]),
      { destination: GUEST_MOUNT, type: "bind", source: input.guestFolder, options: ["bind", "ro", "nosuid", "nodev"] },
      bindMount(input.controlSecretFile, CONTROL_SECRET_FILE),
      bindMount(`${input.root}${SETTINGS}`, SETTINGS),
      bindMount(input.bootIdFile, `${SETTINGS}/kernel/random/boot_id`),
      ...hidingMounts(input.guestFolder),
      ...input.volumes.map(({ inside, outside }) => volumeMount(outside, inside)),
    ],
    linux: {
      namespaces: ["user", "pid", "ipc", "uts", "mount", "network", "cgroup", "time"].map((type) => ({ type })),
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: input.cgroup,
      resources: {
        devices: [{ allow: false, access: "rwm" }],
        // With cgroup v1, what waits in TCP sockets is counted apart, and not at all without a limit.
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
      seccomp: seccompProfile().profile,
    },
  };
}

/**
 * As JSON. The filter is as it was written once, which is four fifths of the text, or ready made, in the place of its
 * profile.
 */
export function specText(spec: ReturnType<typeof ociSpec>, compiledFilter?: string): string {
  const { linux, ...others } = spec;
  const { seccomp: _, ...rest } = linux;
  if (compiledFilter !== undefined)
    return JSON.stringify({ ...others, annotations: { [FILTER_ANNOTATION]: compiledFilter }, linux: rest });
  const parts = [JSON.stringify(others), JSON.stringify(rest)].map((text) => text.slice(0, -1));
  return `${parts.join(',"linux":')},"seccomp":${seccompProfile().text}}}`;
}

/** What is mounted from the machine: where it is inside, and what it is outside. */
export function mountedFromOutside(spec: ReturnType<typeof ociSpec>): OutsideMount[] {
  const bound = spec.mounts.filter(({ type, destination }) => type === "bind" && destination !== SETTINGS);
  return bound.map(({ destination, source }) => ({ inside: destination, outside: source }));
}

/**
 * Bind mounts of ours, since CRIU cannot restore crun's own way of hiding. Each is of a place of its own: of two that
 * are mounted from one place in the same way, CRIU may restore the second without its flags, that is, writable.
 */
function hidingMounts(guestFolder: string) {
  // What this kernel does not have needs no hiding, and could not be made in proc.
  const there = [...HIDDEN_IN_PROC, ...EMPTY_IN_PROC].filter((name) => existsSync(`/proc/${name}`));
  return there.map((name) => bindMount(`${guestFolder}/empty/${name}`, `/proc/${name}`));
}

function bindMount(source: string, destination: string) {
  return { destination, type: "bind", source, options: ["bind", "ro", "nosuid", "nodev", "noexec"] };
}

/** By root inside; the file's own mode keeps others out. */
function writableBindMount(source: string, destination: string) {
  return { destination, type: "bind", source, options: ["bind", "rw", "nosuid", "nodev", "noexec"] };
}

/** Programs in it may be run: it is a part of the sandbox's own tree, like its disk. */
function volumeMount(source: string, destination: string) {
  return { destination, type: "bind", source, options: ["bind", "rw", "nosuid", "nodev"] };
}

function mountPoint(destination: string, type: string, options: string[]) {
  return { destination, type, source: type, options };
}
