/** The parts of the OCI spec that all isolation runtimes share: the first process of a sandbox, its limits, mounts. */
import { GUEST_MOUNT } from "../../contract/runtime/guest-programs.ts";
import { SANDBOX_SCORE } from "../../system/oom-score.ts";
import type { NewSandbox } from "./runtime.ts";

/**
 * Capabilities of root inside. None of them reaches beyond the user namespace; left out are raw sockets, network
 * administration, mounting, device nodes, tracing and modules.
 */
const CAPABILITIES = [
  "CAP_AUDIT_WRITE",
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_NET_BIND_SERVICE",
  "CAP_SETFCAP",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_CHROOT",
];

/** An init that reaps orphans, and the script that keeps the guest alive. */
export const GUEST_COMMAND = [
  `${GUEST_MOUNT}/bin/init`,
  "--",
  `${GUEST_MOUNT}/bin/busybox`,
  "sh",
  `${GUEST_MOUNT}/bin/keep-guest`,
];

export const CPU_PERIOD_US = 100_000;

export function guestEnvironment({ size, copy }: Pick<NewSandbox, "size" | "copy">): string[] {
  return [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    `SANDLOT_CPU_COUNT=${size.cpuCount}`,
    `SANDLOT_MEMORY_MB=${size.memoryMB}`,
    ...(copy ? ["SANDLOT_COPY=1"] : []),
  ];
}

export function firstProcess({ openFilesMax }: Pick<NewSandbox, "openFilesMax">, args: string[], env: string[]) {
  return {
    terminal: false,
    user: { uid: 0, gid: 0 },
    cwd: "/",
    args,
    env,
    // sudo must work inside; the user namespace makes that safe.
    noNewPrivileges: false,
    oomScoreAdj: SANDBOX_SCORE,
    capabilities: { bounding: CAPABILITIES, effective: CAPABILITIES, permitted: CAPABILITIES },
    rlimits: [
      { type: "RLIMIT_NOFILE", hard: openFilesMax, soft: openFilesMax },
      { type: "RLIMIT_CORE", hard: 0, soft: 0 },
    ],
  };
}

export function mountPoint(destination: string, type: string, options: string[]) {
  return { destination, type, source: type, options };
}

/** Shows a file or folder of the host. Files are never devices and never change the user of a program. */
export function bindMount(source: string, destination: string, access: "ro" | "rw", ...more: "noexec"[]) {
  return { destination, type: "bind", source, options: ["bind", access, "nosuid", "nodev", ...more] };
}
