/** What programs in a sandbox, and builds, can run into on the machine. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../contract/runtime/limits.ts";
import {
  BUILD_MAX_MS,
  BUILD_READY_MAX_MS,
  BUILD_VARIABLES_MAX_BYTES,
  CONNECTIONS_PER_SANDBOX_MAX,
  CONTENT_LIST_MAX_ENTRIES,
  DISK_FREE_MIN_BYTES,
  DNS_CONNECTIONS_PER_SANDBOX_MAX,
  DNS_QUERIES_PER_SANDBOX_MAX,
  FETCH_LAYERS_MAX,
  FETCH_MAX_BYTES,
  IMAGE_LEVELS_MAX,
  IMAGE_PER_MEMORY_MAX,
  JOURNAL_BURST_MAX_BYTES,
  JOURNAL_BYTES_PER_SECOND,
  RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  RELAY_HELLO_MS,
  RELAY_NEW_PER_SECOND,
} from "./limits.ts";

const MINUTE_MS = 60_000;

export const HOST_LIMITS: readonly Limit[] = [
  {
    name: "processes and threads",
    scope: "sandbox",
    value: String(SANDBOX_PIDS_MAX),
    error: "`fork` fails with `EAGAIN`",
  },
  {
    name: "bandwidth to a sandbox, and from it",
    scope: "sandbox",
    value: "none",
    error: "senders are held back",
    setting: "SANDLOT_BANDWIDTH_MBIT",
  },
  {
    name: "throughput of a sandbox's disk, to read and to write",
    scope: "sandbox",
    value: "none",
    error: "programs wait; with cgroup v1 not for what the kernel writes later",
    setting: "SANDLOT_DISK_MB_PER_SECOND",
  },
  {
    name: "connections to the outside",
    scope: "sandbox",
    value: String(CONNECTIONS_PER_SANDBOX_MAX),
    error: "further ones are refused: `ECONNREFUSED`",
  },
  {
    name: "connections that are relayed by name",
    scope: "sandbox",
    value: String(RELAY_CONNECTIONS_PER_SANDBOX_MAX),
    error: "further ones are closed",
  },
  {
    name: "new connections that are relayed by name",
    scope: "sandbox",
    value: `${RELAY_NEW_PER_SECOND} each second`,
    error: "further ones wait for their turn",
  },
  {
    name: "time until a relayed connection says whom it is for",
    scope: "connection",
    value: `${RELAY_HELLO_MS / 1000} seconds`,
    error: "it is closed",
  },
  {
    name: "questions to the name server",
    scope: "sandbox",
    value: `${DNS_QUERIES_PER_SANDBOX_MAX} at once`,
    error: "the oldest is not answered",
  },
  {
    name: "connections to the name server",
    scope: "sandbox",
    value: `${DNS_CONNECTIONS_PER_SANDBOX_MAX} at once`,
    error: "further ones are closed",
  },
  {
    name: "lines of a sandbox's log",
    scope: "sandbox",
    value: `${inBytes(JOURNAL_BURST_MAX_BYTES)} at once, ${inBytes(JOURNAL_BYTES_PER_SECOND)} each second`,
    error: "the oldest are dropped, and a line says how many",
  },
  {
    name: "memory that a pause writes",
    scope: "sandbox",
    value: `${IMAGE_PER_MEMORY_MAX} times the sandbox's memory`,
    error: "422",
  },
  {
    name: "free room on the machine's disk",
    scope: "server",
    value: inBytes(DISK_FREE_MIN_BYTES),
    error: "507 for whatever would need more",
  },
  {
    name: "time of a build",
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
    name: "variables of a build",
    scope: "build",
    value: inBytes(BUILD_VARIABLES_MAX_BYTES),
    error: "the build fails",
  },
  { name: "layers of an image", scope: "build", value: String(FETCH_LAYERS_MAX), error: "the build fails" },
  {
    name: "size of an image as it is fetched",
    scope: "build",
    value: inBytes(FETCH_MAX_BYTES),
    error: "the build fails",
  },
  {
    name: "templates that are built on one another",
    scope: "build",
    value: String(IMAGE_LEVELS_MAX),
    error: "the build fails",
  },
  { name: "entries of a list of a volume", scope: "request", value: String(CONTENT_LIST_MAX_ENTRIES), error: "400" },
];
