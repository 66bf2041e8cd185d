/**
 * The OCI spec of a sandbox for runsc. Its kernel is a separate program that knows nothing of the host, so most files
 * that crun must hide do not exist. Pure: facts in, JSON out.
 */
import { CONTROL_SECRET_FILE } from "../../../contract/runtime/guest-control.ts";
import { GUEST_MOUNT } from "../../../contract/runtime/guest-programs.ts";
import { SANDBOX_PIDS_MAX } from "../../../contract/runtime/limits.ts";
import { ID_COUNT, type IdRange } from "../../../system/id-range.ts";
import {
  bindMount,
  CPU_PERIOD_US,
  firstProcess,
  GUEST_COMMAND,
  guestEnvironment,
  mountPoint,
} from "../guest-process.ts";
import type { NewSandbox, OutsideMount, RestoreRequest, SandboxSize } from "../runtime.ts";

/**
 * runsc mounts a tmpfs over a /tmp that is empty at the start, and its files would be on no disk. So /tmp contains this
 * file, which is removed before anything else runs.
 */
export const TMP_MARK = "/tmp/.sandlot-start";

/** On the host, each process inside takes two or more processes, and runsc has its own. */
const MACHINE_PIDS_MAX = 2 * SANDBOX_PIDS_MAX;

export type RunscSpec = ReturnType<typeof runscSpec>;

export function runscSpec(input: Omit<NewSandbox, "id" | "folder">) {
  return {
    ociVersion: "1.0.2",
    hostname: input.hostname,
    root: { path: input.root, readonly: false },
    process: firstProcess(
      input,
      [`${GUEST_MOUNT}/bin/busybox`, "sh", "-c", `rm -f ${TMP_MARK}; exec "$0" "$@"`, ...GUEST_COMMAND],
      guestEnvironment(input),
    ),
    mounts: [
      mountPoint("/proc", "proc", ["nosuid", "noexec", "nodev"]),
      mountPoint("/dev", "tmpfs", ["nosuid", "noexec", "mode=755", "size=1m"]),
      mountPoint("/dev/pts", "devpts", ["nosuid", "noexec"]),
      mountPoint("/dev/shm", "tmpfs", ["nosuid", "nodev", "noexec", "mode=1777", "size=256m"]),
      mountPoint("/run", "tmpfs", ["nosuid", "nodev", "mode=755", "size=64m"]),
      mountPoint("/sys", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
      mountPoint("/sys/fs/cgroup", "cgroup", ["nosuid", "noexec", "nodev", "ro"]),
      bindMount(input.guestFolder, GUEST_MOUNT, "ro"),
      bindMount(input.controlSecretFile, CONTROL_SECRET_FILE, "ro"),
      ...input.volumes.map(({ inside, outside }) => bindMount(outside, inside, "rw")),
    ],
    linux: {
      namespaces: ["user", "pid", "ipc", "uts", "mount", "network"].map((type) => ({ type })),
      ...idMappings(input.ids),
      cgroupsPath: input.cgroup,
      resources: resources(input.size),
    },
  };
}

/** The spec for a restore: another root, other mount sources, another size, other ids. */
export function specForRestore(written: RunscSpec, request: RestoreRequest): RunscSpec {
  const places = new Map(request.mounts.map(({ inside, outside }) => [inside, outside]));
  return {
    ...written,
    root: { ...written.root, path: request.root },
    mounts: written.mounts.map((mount) =>
      mount.type === "bind" ? { ...mount, source: places.get(mount.destination) ?? mount.source } : mount,
    ),
    linux: {
      ...written.linux,
      ...idMappings(request.ids),
      cgroupsPath: request.cgroup,
      resources: resources(request.size),
    },
  };
}

export function mountedFromOutside(spec: RunscSpec): OutsideMount[] {
  const mounts = spec.mounts.filter(({ type }) => type === "bind");
  return mounts.map(({ destination, source }) => ({ inside: destination, outside: source }));
}

function idMappings({ first }: IdRange) {
  const mappings = [{ containerID: 0, hostID: first, size: ID_COUNT }];
  return { uidMappings: mappings, gidMappings: mappings };
}

/** Limits for everything, including the sandbox's kernel. */
function resources({ memoryMB, cpuCount, processors }: SandboxSize) {
  const memoryBytes = memoryMB * 1024 * 1024;
  const cpu = { quota: cpuCount * CPU_PERIOD_US, period: CPU_PERIOD_US };
  return {
    memory: { limit: memoryBytes, swap: memoryBytes },
    pids: { limit: MACHINE_PIDS_MAX },
    cpu: processors === undefined ? cpu : { ...cpu, cpus: processors },
  };
}
