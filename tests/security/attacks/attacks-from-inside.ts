/** Attacks 1 to 19: on the kernel, and on the parts of the machine that sandboxes share. */
import type { Attack } from "./attacks.ts";

const ISOLATION_TEST = "tests/security/isolation.ts";
const HOSTILE_ROOT = "tests/security/alone/hostile-root.test.ts";
const GUEST = "tests/security/alone/attacked-guest.test.ts";
const FETCH = "tests/functional/host/fetch-image.test.ts";

const KERNEL: Attack[] = [
  {
    number: 1,
    name: "Socket families with known vulnerabilities: AF_ALG, RxRPC, IPsec keys, XFRM, vsock, packet and all others except Unix, IPv4, IPv6 and route netlink",
    inside: true,
    underRunsc: "gVisor has its own network stack and asks the machine's kernel for none of them",
  },
  {
    number: 2,
    name: "Loading a kernel module, directly or through a request that needs one",
    inside: true,
    underRunsc: "gVisor's kernel has no modules and requests none from the machine's",
    tests: [["src/setup/doctor/isolation-checks.test.ts", "rare loadable protocols are reported, and no common ones"]],
    open: "the machine has no list of forbidden modules; the doctor prints one",
  },
  {
    number: 3,
    name: "System calls used in earlier escapes: io_uring, Linux AIO, bpf, perf, userfaultfd, mounts of both generations, namespaces, handles, memory of other processes, clocks, swap, reboot",
    inside: true,
    underRunsc: "gVisor's kernel answers them; a separate filter limits its own calls to the machine's kernel",
  },
  {
    number: 4,
    name: "Kernel keyrings, own and others'",
    inside: true,
    underRunsc: "keyrings belong to gVisor's kernel, and each sandbox has its own",
  },
  {
    number: 5,
    name: "Reading the kernel's memory, symbols, log, timers, devices, debugging and pressure files",
    inside: true,
    underRunsc: "the files belong to gVisor's kernel",
  },
  {
    number: 6,
    name: "Writing kernel settings and switches, also where the image has links in place of /dev, /proc, /sys or their files",
    inside: true,
    underRunsc: "settings belong to gVisor's kernel and end with the sandbox",
    tests: [
      [HOSTILE_ROOT, "an image with links in place of what is mounted and hidden"],
      ["tests/functional/host/doctor.test.ts", "a missing program is broken, with the exact fix and exit code 1"],
    ],
  },
  {
    number: 7,
    name: "Own limits and `release_agent` through the cgroup file system, and the cgroups of others",
    inside: true,
    underRunsc: "gVisor's kernel emulates cgroups; the real one is not visible inside",
  },
  {
    number: 8,
    name: "Leaked descriptors, a working directory in /proc/self/fd, the runtime's own program, loader and path of the image",
    inside: true,
    tests: [
      [ISOLATION_TEST, "a working directory given by descriptor does not lead out of the sandbox"],
      [
        "tests/functional/host/runtime-contract.test.ts",
        "processes of a sandbox hold no file of the host beyond /dev/null",
      ],
      ["tests/functional/host/guest-programs.test.ts", "Bun's configuration files in the image are not read"],
    ],
  },
  {
    number: 9,
    name: "Capabilities beyond the short list, identities of the machine",
    inside: true,
    underRunsc: "ids belong to gVisor's kernel, which runs with the sandbox's own id range",
    tests: [
      [ISOLATION_TEST, "set-uid programs work inside, such as sudo"],
      ["src/images/layers.root.test.ts", "a root that the kernel mounts with fewer options than requested is rejected"],
      ["tests/security/alone/user-ids.test.ts", "beside two sandboxes that use up what a user may have"],
    ],
  },
  {
    number: 10,
    name: "Other than the harmless devices, and making new ones",
    inside: true,
    underRunsc: "devices belong to gVisor's kernel and its own network and files",
  },
  {
    number: 11,
    name: "Sockets of daemons, processes and roots of the machine, traces of neighbours",
    inside: true,
    tests: [[ISOLATION_TEST, "the guest's folder is read-only and its secret is not in any process of the user"]],
  },
  { number: 12, name: "The first steps of two dozen known exploits, with each run of the tests", inside: true },
];

const RESOURCES: Attack[] = [
  {
    number: 13,
    name: "Fork bombs",
    inside: true,
    underRunsc: "the limit applies to gVisor's kernel as a whole",
    tests: [
      [GUEST, "a fork bomb"],
      ["tests/security/alone/resource-limits.test.ts", "a fork bomb stays inside, and the guest still answers"],
    ],
  },
  {
    number: 14,
    name: "Memory bombs: anonymous, shared, in files of memory, in sockets",
    inside: true,
    underRunsc: "the limit applies to gVisor's kernel as a whole",
    tests: [
      [GUEST, "a memory bomb of "],
      [
        "tests/security/alone/resource-limits.test.ts",
        "a process that exceeds the template's memory is killed, and the sandbox runs on",
      ],
      ["tests/security/alone/resource-limits.test.ts", "bytes queued in TCP sockets are limited"],
      ["tests/security/uncounted-memory.test.ts", "no socket can enlarge its receive buffer"],
      ["tests/security/machine-limits.test.ts", "all sandboxes together leave a part of the memory to the machine"],
    ],
  },
  {
    number: 15,
    name: "Filling the disk with bytes and with files",
    inside: true,
    tests: [
      [GUEST, "a full disk"],
      [
        "tests/security/alone/resource-limits.test.ts",
        "the disk has the template's size, is full when it is full, and can be used again after a removal",
      ],
      ["tests/security/hostile-volume.test.ts", "a volume uses at most its size in bytes and files"],
      ["tests/chaos/full-disk.test.ts", "changes of a sandbox's state are still recorded"],
    ],
  },
  {
    number: 16,
    name: "Taking processors from others, by number, priority or realtime",
    inside: true,
    underRunsc: "the limit applies to gVisor's kernel as a whole",
    tests: [["tests/security/alone/resource-limits.test.ts", "a sandbox uses only the processors of its template"]],
  },
  {
    number: 17,
    either: true,
    name: "Endless output and logs",
    tests: [
      [
        "src/guest/process/output-bytes.root.test.ts",
        "a flood reaches three listeners completely, also a slow one, in bounded memory",
      ],
      ["tests/security/hostile-guest.test.ts", "a %s flood in response to the host does not grow the server"],
      ["src/sandbox/guest-link/guest-journal.test.ts", "that floods is disconnected, without growing the server"],
      ["tests/functional/host/build.test.ts", "endless output is throttled, and dropped when the log is full"],
    ],
  },
  {
    number: 18,
    name: "Unbounded open files, processes, terminals, watches, connections and slow streams",
    inside: true,
    tests: [
      ["src/guest/filesystem/watching/watching-limits.root.test.ts", "are reported as such"],
      [
        "src/egress/program/relay-limits.test.ts",
        "connections of a sandbox are bounded, and an ended one frees its place",
      ],
      ["src/egress/program/relay-limits.test.ts", "a connection that does not name its target in time is closed"],
      ["tests/functional/volumes/volume-content.test.ts", "an abandoned download does not delay the next ones"],
      ["tests/security/machine-limits.test.ts", "has a bounded number of terminals, and others have theirs"],
      [
        "tests/security/alone/sandbox-quotas.test.ts",
        "connections to the outside are bounded, and the neighbour has its own",
      ],
      ["tests/conventions/limits.test.ts", "has a test, and no other limit is listed"],
    ],
  },
  {
    number: 19,
    either: true,
    name: "Archive and layer bombs",
    tests: [
      [FETCH, "without an end fill only their own disk"],
      ["src/guest/files/files.root.test.ts", "256 MiB are unpacked from a small gzip body"],
      ["src/control/builds/uploads.test.ts", "a body that is too large without a Content-Length"],
      ["src/builder/registry/manifest.test.ts", "an invalid or too large image is rejected with the reason"],
    ],
  },
];

export const ATTACKS_FROM_INSIDE: readonly Attack[] = [...KERNEL, ...RESOURCES];
