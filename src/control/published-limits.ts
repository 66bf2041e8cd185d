/** Limits of the management interface that teams and requests can reach, for docs/limits.md. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { JSON_DEPTH_MAX } from "../contract/limits.ts";
import {
  CPU_COUNT_DEFAULT,
  CPU_COUNT_MAX,
  CPU_COUNT_MIN,
  DISK_SIZE_DEFAULT_MB,
  EGRESS_ENTRIES_MAX,
  ENV_TOTAL_MAX_BYTES,
  ENV_VARIABLE_MAX_BYTES,
  FORK_COUNT_MAX,
  MCP_MAX_BYTES,
  MEMORY_DEFAULT_MB,
  MEMORY_MAX_MB,
  MEMORY_MIN_MB,
  METADATA_ENTRIES_MAX,
  METADATA_KEY_MAX_CHARS,
  METADATA_MAX_BYTES,
  PAGE_MAX,
} from "../contract/management/limits.ts";
import {
  BODIES_MAX_BYTES,
  BODIES_PER_TEAM_MAX_BYTES,
  BODY_BYTES_PER_TEAM_BURST,
  BODY_BYTES_PER_TEAM_PER_SECOND,
} from "./access/body-budgets.ts";
import { ACCESS_TOKENS_PER_USER_MAX, API_KEYS_PER_TEAM_MAX } from "./access/keys.ts";
import {
  REQUEST_BURST_SECONDS,
  REQUEST_RATES_DEFAULT,
  STRANGER_REQUESTS_BURST,
  STRANGER_REQUESTS_PER_SECOND,
} from "./access/request-rates.ts";
import { LINK_MISSES_MAX } from "./access/signed-links.ts";
import { LOG_TEAM_BYTES_PER_SECOND } from "./activity/sandbox-logs.ts";
import { BUILD_LIMITS_DEFAULT } from "./builds/build-limits.ts";
import { STEP_ARGUMENT_MAX_BYTES } from "./builds/build-steps.ts";
import { BUILD_START_WITHIN_MS } from "./builds/unstarted-builds.ts";
import { UPLOADS_AT_ONCE_PER_TEAM, UPLOADS_PER_TEAM_MAX, UPLOADS_PER_TEAM_MAX_BYTES } from "./builds/uploads.ts";
import { DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_MAX_BYTES } from "./dockerfile/instructions.ts";
import { REQUEST_BODY_MAX_BYTES } from "./http/dispatch.ts";
import { REQUEST_VALUES_MAX } from "./http/json-bounds.ts";
import { REQUEST_BODY_MS } from "./http/request-body.ts";
import { EGRESS_CHANGES_WAITING_MAX } from "./lifecycle/transitions/egress-changes.ts";
import {
  BUILD_WITHOUT_UPLOAD_MS,
  DELIVERIES_WAITING_MAX,
  LOG_BYTES_PER_SANDBOX_MAX,
  LOG_LINES_PER_SANDBOX_MAX,
  REQUEST_LARGE_BODY_MAX_BYTES,
} from "./limits.ts";
import { SNAPSHOTS_PER_TEAM_MAX } from "./templates/snapshots.ts";
import { VOLUME_CONTENTS_PER_TEAM_MAX } from "./volumes/content-quota.ts";
import { VOLUME_BOUNDS_DEFAULT } from "./volumes/volumes.ts";
import { WEBHOOKS_PER_TEAM_MAX } from "./webhooks/webhooks.ts";

const LATER = "429 with `Retry-After`";
const NOT_LATER = "429 without `Retry-After`";
const rate = (perSecond: number) => `${perSecond} each second, ${perSecond * REQUEST_BURST_SECONDS} at once`;

const OF_SANDBOXES: readonly Limit[] = [
  {
    name: "processors",
    scope: "sandbox",
    value: `${CPU_COUNT_DEFAULT} (${CPU_COUNT_MIN} to ${CPU_COUNT_MAX})`,
    error: "programs share them",
    setting: "`cpuCount` of the template's build",
  },
  {
    name: "memory",
    scope: "sandbox",
    value: `${MEMORY_DEFAULT_MB} MB (${MEMORY_MIN_MB} to ${MEMORY_MAX_MB})`,
    error: "the kernel kills a process",
    setting: "`memoryMB` of the template's build",
  },
  { name: "disk", scope: "sandbox", value: `${DISK_SIZE_DEFAULT_MB} MB`, error: "`ENOSPC`; 507 for uploads" },
  {
    name: "mounted volumes",
    scope: "sandbox",
    value: String(VOLUME_BOUNDS_DEFAULT.mountsPerSandbox),
    error: "400",
    setting: "SANDLOT_VOLUMES_PER_SANDBOX",
  },
  {
    name: "stored log lines",
    scope: "sandbox",
    value: `${LOG_LINES_PER_SANDBOX_MAX}, ${inBytes(LOG_BYTES_PER_SANDBOX_MAX)}`,
    error: "the oldest are removed",
  },
  {
    name: "queued changes of network rules",
    scope: "sandbox",
    value: String(EGRESS_CHANGES_WAITING_MAX),
    error: LATER,
  },
];

const OF_TEAMS: readonly Limit[] = [
  {
    name: "running sandboxes",
    scope: "team",
    value: "none",
    error: NOT_LATER,
    setting: "`sandlot limits TEAM sandboxes=N`",
  },
  {
    name: "duration of a run",
    scope: "team",
    value: "none",
    error: "400 for a longer timeout",
    setting: "`sandlot limits TEAM hours=H`",
  },
  {
    name: "reading requests",
    scope: "team",
    value: rate(REQUEST_RATES_DEFAULT.reads),
    error: LATER,
    setting: "SANDLOT_READS_PER_SECOND, `sandlot limits TEAM reads=N`",
  },
  {
    name: "changing requests",
    scope: "team",
    value: rate(REQUEST_RATES_DEFAULT.changes),
    error: LATER,
    setting: "SANDLOT_CHANGES_PER_SECOND, `sandlot limits TEAM changes=N`",
  },
  {
    name: "requests for files of volumes",
    scope: "team",
    value: rate(REQUEST_RATES_DEFAULT.files),
    error: LATER,
    setting: "SANDLOT_FILES_PER_SECOND",
  },
  {
    name: "JSON bodies in transit",
    scope: "team",
    value: inBytes(BODIES_PER_TEAM_MAX_BYTES),
    error: LATER,
  },
  {
    name: "bytes of JSON bodies",
    scope: "team",
    value: `${inBytes(BODY_BYTES_PER_TEAM_PER_SECOND)} each second, ${inBytes(BODY_BYTES_PER_TEAM_BURST)} at once`,
    error: LATER,
  },
  {
    name: "concurrent builds of a team",
    scope: "team",
    value: "those of the server; one less if there are several teams",
    error: "further builds are queued; their logs say so",
    setting: "`sandlot limits TEAM builds=N`",
  },
  {
    name: "queued builds",
    scope: "team",
    value: String(BUILD_LIMITS_DEFAULT.waitingPerTeam),
    error: NOT_LATER,
    setting: "SANDLOT_BUILDS_WAITING",
  },
  {
    name: "time until a build starts",
    scope: "build",
    value: `${BUILD_WITHOUT_UPLOAD_MS / 60_000} minutes after the last upload; ${BUILD_START_WITHIN_MS / 3_600_000} hours`,
    error: "the build fails",
  },
  { name: "concurrent uploads for builds", scope: "team", value: String(UPLOADS_AT_ONCE_PER_TEAM), error: LATER },
  {
    name: "stored uploads for builds",
    scope: "team",
    value: `${UPLOADS_PER_TEAM_MAX}, ${inBytes(UPLOADS_PER_TEAM_MAX_BYTES)}`,
    error: "507",
  },
  {
    name: "volumes",
    scope: "team",
    value: String(VOLUME_BOUNDS_DEFAULT.perTeam),
    error: NOT_LATER,
    setting: "SANDLOT_VOLUMES_PER_TEAM",
  },
  {
    name: "volumes with concurrent file requests",
    scope: "team",
    value: String(VOLUME_CONTENTS_PER_TEAM_MAX),
    error: LATER,
  },
  { name: "API keys", scope: "team", value: String(API_KEYS_PER_TEAM_MAX), error: NOT_LATER },
  { name: "access tokens", scope: "user", value: String(ACCESS_TOKENS_PER_USER_MAX), error: NOT_LATER },
  { name: "snapshots", scope: "team", value: String(SNAPSHOTS_PER_TEAM_MAX), error: NOT_LATER },
  { name: "webhooks", scope: "team", value: String(WEBHOOKS_PER_TEAM_MAX), error: NOT_LATER },
  {
    name: "queued deliveries of a webhook",
    scope: "team",
    value: String(DELIVERIES_WAITING_MAX),
    error: "further deliveries are recorded as failed",
  },
  {
    name: "log lines of all sandboxes of a team",
    scope: "team",
    value: `${inBytes(LOG_TEAM_BYTES_PER_SECOND)} each second`,
    error: "further lines are dropped; one line gives their number",
  },
];

const OF_REQUESTS: readonly Limit[] = [
  {
    name: "requests without a valid key",
    scope: "address",
    value: `${STRANGER_REQUESTS_PER_SECOND} each second, ${STRANGER_REQUESTS_BURST} at once`,
    error: LATER,
  },
  {
    name: "links with an invalid signature",
    scope: "address",
    value: `${LINK_MISSES_MAX} in a minute`,
    error: LATER,
  },
  { name: "body of a request", scope: "request", value: inBytes(REQUEST_BODY_MAX_BYTES), error: "413" },
  {
    name: "body of a create or build request",
    scope: "request",
    value: inBytes(REQUEST_LARGE_BODY_MAX_BYTES),
    error: "413",
  },
  { name: "time for a body to arrive", scope: "request", value: `${REQUEST_BODY_MS / 1000} s`, error: "408" },
  {
    name: "JSON bodies of all teams in transit",
    scope: "server",
    value: inBytes(BODIES_MAX_BYTES),
    error: LATER,
  },
  { name: "values in a body", scope: "request", value: String(REQUEST_VALUES_MAX), error: "400" },
  { name: "nesting levels of a body", scope: "request", value: String(JSON_DEPTH_MAX), error: "400" },
  { name: "entries of metadata", scope: "request", value: String(METADATA_ENTRIES_MAX), error: "400" },
  { name: "key of metadata", scope: "request", value: `${METADATA_KEY_MAX_CHARS} characters`, error: "400" },
  { name: "total metadata", scope: "request", value: inBytes(METADATA_MAX_BYTES), error: "400" },
  { name: "one environment variable", scope: "request", value: inBytes(ENV_VARIABLE_MAX_BYTES), error: "400" },
  { name: "total environment variables", scope: "request", value: inBytes(ENV_TOTAL_MAX_BYTES), error: "400" },
  { name: "`mcp` of a create", scope: "request", value: inBytes(MCP_MAX_BYTES), error: "400" },
  { name: "entries of a network list", scope: "request", value: String(EGRESS_ENTRIES_MAX), error: "400" },
  { name: "copies of a fork", scope: "request", value: String(FORK_COUNT_MAX), error: "400" },
  { name: "entries of a page", scope: "request", value: String(PAGE_MAX), error: "400" },
  {
    name: "size of a volume",
    scope: "volume",
    value: `${VOLUME_BOUNDS_DEFAULT.sizeMaxMB} MB`,
    error: "400; `ENOSPC` in a full volume",
    setting: "SANDLOT_VOLUME_SIZE_MAX_MB",
  },
];

const OF_BUILDS: readonly Limit[] = [
  {
    name: "concurrent builds",
    scope: "server",
    value: String(BUILD_LIMITS_DEFAULT.atOnce),
    error: "further builds are queued; their logs say so",
    setting: "SANDLOT_BUILDS",
  },
  {
    name: "steps of a build",
    scope: "build",
    value: String(BUILD_LIMITS_DEFAULT.stepsMax),
    error: "400",
    setting: "SANDLOT_BUILD_STEPS",
  },
  { name: "argument of a step", scope: "build", value: inBytes(STEP_ARGUMENT_MAX_BYTES), error: "400" },
  {
    name: "log of a build",
    scope: "build",
    value: inBytes(BUILD_LIMITS_DEFAULT.logMaxBytes),
    error: "the rest is dropped; one line says so",
    setting: "SANDLOT_BUILD_LOG_MB",
  },
  {
    name: "size of an upload for a build",
    scope: "build",
    value: inBytes(BUILD_LIMITS_DEFAULT.uploadMaxBytes),
    error: "413",
    setting: "SANDLOT_UPLOAD_MB",
  },
  { name: "size of a Dockerfile", scope: "build", value: inBytes(DOCKERFILE_MAX_BYTES), error: "400" },
  {
    name: "instructions of a Dockerfile",
    scope: "build",
    value: String(DOCKERFILE_INSTRUCTIONS_MAX),
    error: "400",
  },
];

export const CONTROL_LIMITS: readonly Limit[] = [...OF_SANDBOXES, ...OF_TEAMS, ...OF_REQUESTS, ...OF_BUILDS];
