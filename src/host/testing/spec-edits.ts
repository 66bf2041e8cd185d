/** Changes to the OCI spec of a sandbox, by name. Pure: a spec in, another out. */
import { readFileSync } from "node:fs";
import { GUEST_MOUNT } from "../../contract/runtime/guest-programs.ts";
import type { ociSpec } from "../../sandbox/runtime/crun/oci-spec.ts";

type Spec = ReturnType<typeof ociSpec>;
type Edit = (spec: Spec) => unknown;

/** The path of the program inside, and of its results. */
export const PROGRAM = "/tmp/attack/main.py";
export const FOUND = "/tmp/attack/found.json";
const CAPABILITIES = `
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST
NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE
SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM
BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
`
  .trim()
  .split(/\s+/);

/** All capabilities of the machine's own root: in a container, or under a service manager, it may lack some. */
export function ownCapabilities(): string[] {
  const [, bits = "0"] = /^CapBnd:\s*(\w+)/m.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return CAPABILITIES.filter((_, at) => (BigInt(`0x${bits}`) >> BigInt(at)) & 1n).map((name) => `CAP_${name}`);
}

export const EDITS = {
  /** Runs the program of tests/security/attacks/inside instead of the guest. */
  attacks: (spec) => ({
    ...spec,
    process: { ...spec.process, args: ["/usr/bin/python3", PROGRAM, FOUND] },
  }),

  /**
   * No isolation but the root filesystem: root inside is the machine's and sees its processes; nothing is filtered,
   * hidden, read-only or limited. Programs run in it must be harmless by themselves.
   */
  weakened: (spec) => ({
    ...spec,
    // The compiled seccomp filter may be an annotation.
    annotations: {},
    process: {
      ...spec.process,
      // The sandbox's name, in a world-readable file.
      args: [...spec.process.args, spec.hostname],
      capabilities: {
        bounding: ownCapabilities(),
        effective: ownCapabilities(),
        permitted: ownCapabilities(),
        inheritable: ownCapabilities(),
      },
      rlimits: [{ type: "RLIMIT_NOFILE", hard: 4096, soft: 1024 }],
    },
    mounts: [
      ...spec.mounts.filter(({ destination }) => !/^\/(?:proc\/|sys)/.test(destination)).map(withoutBounds),
      { destination: "/sys", type: "sysfs", source: "sysfs", options: [] },
      { destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup", options: ["rw"] },
    ],
    linux: {
      namespaces: [{ type: "mount" }, { type: "uts" }],
      cgroupsPath: spec.linux.cgroupsPath,
      resources: { devices: [{ allow: true, access: "rwm" }] },
      devices: [
        { path: "/dev/console", type: "c", major: 5, minor: 1, fileMode: 0o600 },
        { path: "/dev/kmsg", type: "c", major: 1, minor: 11, fileMode: 0o600 },
        { path: "/dev/mem", type: "c", major: 1, minor: 1, fileMode: 0o600 },
        { path: "/dev/fuse", type: "c", major: 10, minor: 229, fileMode: 0o600 },
        { path: "/dev/kvm", type: "c", major: 10, minor: 232, fileMode: 0o600 },
      ],
    },
  }),
} satisfies Record<string, Edit>;

export function isEdit(name: string): name is keyof typeof EDITS {
  return name in EDITS;
}

type Mount = Spec["mounts"][number];

function withoutBounds(mount: Mount): Mount {
  const options = mount.options.filter((option) => option !== "ro" && !option.startsWith("size="));
  if (mount.destination === GUEST_MOUNT) return { ...mount, options: [...options, "rw"] };
  return { ...mount, options };
}
