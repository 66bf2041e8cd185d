/** Limits of the machine that programs in a sandbox, and builds, can reach. */

import { BUILD_VARIABLES_MAX_BYTES } from "../builder/limits.ts";
import { BUILD_MAX_MS, BUILD_READY_MAX_MS } from "../builder/open-builds.ts";
import { FETCH_LAYERS_MAX, FETCH_MAX_BYTES } from "../builder/registry/manifest.ts";
import { inBytes, type Limit, limitRows } from "../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../contract/runtime/limits.ts";
import { DNS_CONNECTIONS_PER_SANDBOX_MAX, DNS_QUERIES_PER_SANDBOX_MAX } from "../egress/dns-relay.ts";
import { RELAY_CONNECTIONS_PER_SANDBOX_MAX, RELAY_HELLO_MS, RELAY_NEW_PER_SECOND } from "../egress/program/bounds.ts";
import { RULE_CERTIFICATES_BURST, RULE_CERTIFICATES_PER_SECOND } from "../egress/rule-certificates.ts";
import { DISK_FREE_MIN_BYTES } from "../images/disk/disks.ts";
import { DISK_BYTES_PER_FILE } from "../images/disk/prototypes.ts";
import { IMAGE_LEVELS_MAX } from "../images/images.ts";
import { JOURNAL_BURST_MAX_BYTES, JOURNAL_BYTES_PER_SECOND } from "../sandbox/guest-link/guest-journal.ts";
import { IMAGE_PER_MEMORY_MAX } from "../sandbox/limits.ts";
import { CONNECTIONS_PER_SANDBOX_MAX } from "../sandbox/network/ruleset.ts";
import { QUEUED_PER_SANDBOX_MAX_BYTES, QUEUING_SOCKETS_PER_SANDBOX_MAX } from "../sandbox/queue-watch.ts";
import { DELETED_FILES_MAX, QUEUED_SIGNALS_MAX } from "../sandbox/runtime/crun/dump-precheck.ts";
import { RUN_MAX_MB, SHM_MAX_MB } from "../sandbox/runtime/crun/image/lasting-memory.ts";
import { TERMINALS_PER_SANDBOX_MAX } from "../sandbox/runtime/crun/oci-spec.ts";
import { CONTENT_LIST_MAX_ENTRIES } from "../sandbox/volume/program/entries.ts";
import { OPEN_FILES_WANTED } from "../system/open-files.ts";

const MINUTE_MS = 60_000;

export const HOST_LIMITS: readonly Limit[] = limitRows([
  ["sandbox", "processes and threads", SANDBOX_PIDS_MAX, "`fork` fails with `EAGAIN`"],
  [
    "process",
    "open files",
    `${OPEN_FILES_WANTED}; each uses memory of the sandbox`,
    "`EMFILE`; beyond the memory, the kernel kills a process",
  ],
  ["sandbox", "files on the disk", `one for each ${inBytes(DISK_BYTES_PER_FILE)}`, "`ENOSPC`"],
  ["sandbox", "terminals", TERMINALS_PER_SANDBOX_MAX, "`openpty` fails with `ENOSPC`"],
  [
    "sandbox",
    "files in memory: `/dev/shm` and `/run`",
    `${SHM_MAX_MB} MB and ${RUN_MAX_MB} MB; less in sandboxes with little memory`,
    "`ENOSPC`",
  ],
  ["sandbox", "memory of System V segments", "an eighth of the memory", "`shmget` fails with `ENOSPC`"],
  [
    "sandbox",
    "data queued in netlink, ping and UDP sockets",
    `${inBytes(QUEUED_PER_SANDBOX_MAX_BYTES)}, ${QUEUING_SOCKETS_PER_SANDBOX_MAX} sockets`,
    "the server ends the sandbox; its log gives the reason",
  ],
  ["sandbox", "pending signals and timers during a pause", QUEUED_SIGNALS_MAX, "422; the sandbox continues"],
  ["sandbox", "open deleted files during a pause", DELETED_FILES_MAX, "422; the sandbox continues"],
  ["sandbox", "network bandwidth in each direction", "none", "senders are slowed down", "SANDLOT_BANDWIDTH_MBIT"],
  [
    "sandbox",
    "disk throughput, reads and writes",
    "none",
    "programs wait; with cgroup v1, buffered writes are not limited",
    "SANDLOT_DISK_MB_PER_SECOND",
  ],
  ["sandbox", "outgoing connections", CONNECTIONS_PER_SANDBOX_MAX, "`ECONNREFUSED`"],
  [
    "sandbox",
    "outgoing connections relayed by name",
    RELAY_CONNECTIONS_PER_SANDBOX_MAX,
    "further connections are closed",
  ],
  [
    "sandbox",
    "new outgoing connections relayed by name",
    `${RELAY_NEW_PER_SECOND} each second`,
    "further connections are queued",
  ],
  [
    "connection",
    "time until a relayed connection names its target",
    `${RELAY_HELLO_MS / 1000} seconds`,
    "the connection is closed",
  ],
  [
    "sandbox",
    "certificates for new names with header rules",
    `${RULE_CERTIFICATES_BURST} at once, then ${RULE_CERTIFICATES_PER_SECOND} each second`,
    "further connections to new names fail",
  ],
  ["sandbox", "DNS queries", `${DNS_QUERIES_PER_SANDBOX_MAX} at once`, "the oldest query gets no reply"],
  [
    "sandbox",
    "DNS connections over TCP",
    `${DNS_CONNECTIONS_PER_SANDBOX_MAX} at once`,
    "further connections are closed",
  ],
  [
    "sandbox",
    "log lines of a sandbox",
    `${inBytes(JOURNAL_BURST_MAX_BYTES)} at once, ${inBytes(JOURNAL_BYTES_PER_SECOND)} each second`,
    "the oldest are dropped; one line gives their number",
  ],
  ["sandbox", "memory image of a pause", `${IMAGE_PER_MEMORY_MAX} times the sandbox's memory`, "422"],
  ["server", "free space on the machine's disk", inBytes(DISK_FREE_MIN_BYTES), "507 for requests that need more"],
  ["build", "duration of a build", `${BUILD_MAX_MS / MINUTE_MS} minutes`, "the build fails", "SANDLOT_BUILD_MINUTES"],
  [
    "build",
    "time until a start command is ready",
    `${BUILD_READY_MAX_MS / MINUTE_MS} minutes`,
    "the build fails",
    "SANDLOT_BUILD_READY_MINUTES",
  ],
  ["build", "environment variables of a build", inBytes(BUILD_VARIABLES_MAX_BYTES), "the build fails"],
  ["build", "layers of an image", FETCH_LAYERS_MAX, "the build fails"],
  ["build", "download size of an image", inBytes(FETCH_MAX_BYTES), "the build fails"],
  ["build", "templates based on one another", IMAGE_LEVELS_MAX, "the build fails"],
  ["request", "entries of a list of a volume", CONTENT_LIST_MAX_ENTRIES, "400"],
]);
