/** Limits of the machine that programs in a sandbox, and builds, can reach. */

import { BUILD_VARIABLES_MAX_BYTES } from "../builder/limits.ts";
import { BUILD_MAX_MS, BUILD_READY_MAX_MS } from "../builder/open-builds.ts";
import { FETCH_LAYERS_MAX, FETCH_MAX_BYTES } from "../builder/registry/manifest.ts";
import { inBytes, type Limit } from "../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../contract/runtime/limits.ts";
import { DNS_CONNECTIONS_PER_SANDBOX_MAX, DNS_QUERIES_PER_SANDBOX_MAX } from "../egress/dns-relay.ts";
import { RELAY_CONNECTIONS_PER_SANDBOX_MAX, RELAY_HELLO_MS } from "../egress/limits.ts";
import { RELAY_NEW_PER_SECOND } from "../egress/program/bounds.ts";
import { DISK_FREE_MIN_BYTES } from "../images/disk/disks.ts";
import { DISK_BYTES_PER_FILE } from "../images/disk/prototypes.ts";
import { IMAGE_LEVELS_MAX } from "../images/images.ts";
import { JOURNAL_BURST_MAX_BYTES, JOURNAL_BYTES_PER_SECOND } from "../sandbox/guest-link/guest-journal.ts";
import { IMAGE_PER_MEMORY_MAX } from "../sandbox/limits.ts";
import { CONNECTIONS_PER_SANDBOX_MAX } from "../sandbox/network/ruleset.ts";
import { QUEUED_PER_SANDBOX_MAX_BYTES, QUEUING_SOCKETS_PER_SANDBOX_MAX } from "../sandbox/queue-watch.ts";
import { RUN_MAX_MB, SHM_MAX_MB } from "../sandbox/runtime/crun/image/lasting-memory.ts";
import { TERMINALS_PER_SANDBOX_MAX } from "../sandbox/runtime/crun/oci-spec.ts";
import { DELETED_FILES_MAX, QUEUED_SIGNALS_MAX } from "../sandbox/runtime/crun/slow-to-write.ts";
import { CONTENT_LIST_MAX_ENTRIES } from "../sandbox/volume/program/entries.ts";
import { OPEN_FILES_WANTED } from "../system/open-files.ts";

const MINUTE_MS = 60_000;

export const HOST_LIMITS: readonly Limit[] = [
  {
    name: "processes and threads",
    scope: "sandbox",
    value: String(SANDBOX_PIDS_MAX),
    error: "`fork` fails with `EAGAIN`",
  },
  {
    name: "open files",
    scope: "process",
    value: `${OPEN_FILES_WANTED}; each uses memory of the sandbox`,
    error: "`EMFILE`; beyond the memory, the kernel kills a process",
  },
  {
    name: "files on the disk",
    scope: "sandbox",
    value: `one for each ${inBytes(DISK_BYTES_PER_FILE)}`,
    error: "`ENOSPC`",
  },
  {
    name: "terminals",
    scope: "sandbox",
    value: String(TERMINALS_PER_SANDBOX_MAX),
    error: "`openpty` fails with `ENOSPC`",
  },
  {
    name: "files in memory: `/dev/shm` and `/run`",
    scope: "sandbox",
    value: `${SHM_MAX_MB} MB and ${RUN_MAX_MB} MB; less in sandboxes with little memory`,
    error: "`ENOSPC`",
  },
  {
    name: "memory of System V segments",
    scope: "sandbox",
    value: "an eighth of the memory",
    error: "`shmget` fails with `ENOSPC`",
  },
  {
    name: "data queued in netlink, ping and UDP sockets",
    scope: "sandbox",
    value: `${inBytes(QUEUED_PER_SANDBOX_MAX_BYTES)}, ${QUEUING_SOCKETS_PER_SANDBOX_MAX} sockets`,
    error: "the server ends the sandbox; its log gives the reason",
  },
  {
    name: "pending signals and timers during a pause",
    scope: "sandbox",
    value: String(QUEUED_SIGNALS_MAX),
    error: "422; the sandbox continues",
  },
  {
    name: "open deleted files during a pause",
    scope: "sandbox",
    value: String(DELETED_FILES_MAX),
    error: "422; the sandbox continues",
  },
  {
    name: "network bandwidth in each direction",
    scope: "sandbox",
    value: "none",
    error: "senders are slowed down",
    setting: "SANDLOT_BANDWIDTH_MBIT",
  },
  {
    name: "disk throughput, reads and writes",
    scope: "sandbox",
    value: "none",
    error: "programs wait; with cgroup v1, buffered writes are not limited",
    setting: "SANDLOT_DISK_MB_PER_SECOND",
  },
  {
    name: "outgoing connections",
    scope: "sandbox",
    value: String(CONNECTIONS_PER_SANDBOX_MAX),
    error: "`ECONNREFUSED`",
  },
  {
    name: "outgoing connections relayed by name",
    scope: "sandbox",
    value: String(RELAY_CONNECTIONS_PER_SANDBOX_MAX),
    error: "further connections are closed",
  },
  {
    name: "new outgoing connections relayed by name",
    scope: "sandbox",
    value: `${RELAY_NEW_PER_SECOND} each second`,
    error: "further connections are queued",
  },
  {
    name: "time until a relayed connection names its target",
    scope: "connection",
    value: `${RELAY_HELLO_MS / 1000} seconds`,
    error: "the connection is closed",
  },
  {
    name: "DNS queries",
    scope: "sandbox",
    value: `${DNS_QUERIES_PER_SANDBOX_MAX} at once`,
    error: "the oldest query gets no reply",
  },
  {
    name: "DNS connections over TCP",
    scope: "sandbox",
    value: `${DNS_CONNECTIONS_PER_SANDBOX_MAX} at once`,
    error: "further connections are closed",
  },
  {
    name: "log lines of a sandbox",
    scope: "sandbox",
    value: `${inBytes(JOURNAL_BURST_MAX_BYTES)} at once, ${inBytes(JOURNAL_BYTES_PER_SECOND)} each second`,
    error: "the oldest are dropped; one line gives their number",
  },
  {
    name: "memory image of a pause",
    scope: "sandbox",
    value: `${IMAGE_PER_MEMORY_MAX} times the sandbox's memory`,
    error: "422",
  },
  {
    name: "free space on the machine's disk",
    scope: "server",
    value: inBytes(DISK_FREE_MIN_BYTES),
    error: "507 for requests that need more",
  },
  {
    name: "duration of a build",
    scope: "build",
    value: `${BUILD_MAX_MS / MINUTE_MS} minutes`,
    error: "the build fails",
    setting: "SANDLOT_BUILD_MINUTES",
  },
  {
    name: "time until a start command is ready",
    scope: "build",
    value: `${BUILD_READY_MAX_MS / MINUTE_MS} minutes`,
    error: "the build fails",
    setting: "SANDLOT_BUILD_READY_MINUTES",
  },
  {
    name: "environment variables of a build",
    scope: "build",
    value: inBytes(BUILD_VARIABLES_MAX_BYTES),
    error: "the build fails",
  },
  { name: "layers of an image", scope: "build", value: String(FETCH_LAYERS_MAX), error: "the build fails" },
  {
    name: "download size of an image",
    scope: "build",
    value: inBytes(FETCH_MAX_BYTES),
    error: "the build fails",
  },
  {
    name: "templates based on one another",
    scope: "build",
    value: String(IMAGE_LEVELS_MAX),
    error: "the build fails",
  },
  { name: "entries of a list of a volume", scope: "request", value: String(CONTENT_LIST_MAX_ENTRIES), error: "400" },
];
