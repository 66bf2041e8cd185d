/** Limits of the management API that teams and requests can reach, for docs/limits.md. */
import { inBytes, type Limit, limitRows } from "../contract/limit.ts";
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
  IDENTITY_TOKENS_MAX,
  MCP_MAX_BYTES,
  MEMORY_DEFAULT_MB,
  MEMORY_MAX_MB,
  MEMORY_MIN_MB,
  METADATA_ENTRIES_MAX,
  METADATA_KEY_MAX_CHARS,
  METADATA_MAX_BYTES,
  PAGE_MAX,
  RULE_HEADER_NAME_MAX_CHARS,
  RULE_HEADER_VALUE_MAX_CHARS,
  RULE_HEADERS_MAX,
  RULE_NAME_MAX_CHARS,
  RULE_NAMES_MAX,
  RULE_PLACEHOLDERS_MAX,
  SECRET_METADATA_ENTRIES_MAX,
  SECRET_METADATA_MAX_BYTES,
  SECRET_VALUE_MAX_BYTES,
} from "../contract/management/limits.ts";
import { ACCESS_TOKENS_PER_USER_MAX, API_KEYS_PER_TEAM_MAX } from "./access/keys.ts";
import { LOGINS_PER_OWNER_MAX } from "./access/logins.ts";
import { PASSWORD_CHECKS_MAX } from "./access/passwords.ts";
import { LINK_MISSES_MAX } from "./access/signed-links.ts";
import { DELIVERIES_WAITING_MAX } from "./activity/sandbox-event-record.ts";
import { LOG_BYTES_PER_SANDBOX_MAX, LOG_TEAM_BYTES_PER_SECOND } from "./activity/sandbox-logs.ts";
import {
  BODIES_MAX_BYTES,
  BODIES_PER_TEAM_MAX_BYTES,
  BODY_BYTES_PER_TEAM_BURST,
  BODY_BYTES_PER_TEAM_PER_SECOND,
} from "./budgets/body-budgets.ts";
import {
  EMAIL_TRIES_AT_ONCE,
  EMAIL_TRIES_PER_MINUTE,
  LOGIN_TRIES_AT_ONCE,
  LOGIN_TRIES_PER_MINUTE,
} from "./budgets/login-budgets.ts";
import {
  REQUEST_BURST_SECONDS,
  REQUEST_RATES_DEFAULT,
  UNAUTHENTICATED_REQUESTS_BURST,
  UNAUTHENTICATED_REQUESTS_PER_SECOND,
} from "./budgets/request-rates.ts";
import { BUILD_LIMITS_DEFAULT } from "./builds/build-limits.ts";
import { STEP_ARGUMENT_MAX_BYTES } from "./builds/build-steps.ts";
import { BUILD_START_WITHIN_MS } from "./builds/unstarted-builds.ts";
import { UPLOADS_AT_ONCE_PER_TEAM, UPLOADS_PER_TEAM_MAX, UPLOADS_PER_TEAM_MAX_BYTES } from "./builds/uploads.ts";
import { DOCKERFILE_INSTRUCTIONS_MAX, DOCKERFILE_MAX_BYTES } from "./dockerfile/instructions.ts";
import { REQUEST_BODY_MAX_BYTES } from "./http/dispatch.ts";
import { REQUEST_VALUES_MAX } from "./http/json-bounds.ts";
import { REQUEST_BODY_MS } from "./http/request-body.ts";
import { IDEMPOTENCY_KEYS_PER_TEAM_MAX } from "./lifecycle/idempotent-creates.ts";
import { EGRESS_CHANGES_WAITING_MAX } from "./lifecycle/transitions/egress-changes.ts";
import { BUILD_WITHOUT_UPLOAD_MS, LOG_LINES_PER_SANDBOX_MAX, REQUEST_LARGE_BODY_MAX_BYTES } from "./limits.ts";
import { SIGNING_KEYS_MAX } from "./secrets/identity-issuer.ts";
import { RULE_ANSWER_MAX_BYTES, RULE_QUESTIONS_WAITING_MAX } from "./secrets/rule-answers.ts";
import { SECRET_USES_KEPT_MAX, USE_HOSTS_PER_SANDBOX_MAX } from "./secrets/secret-uses.ts";
import { SECRET_VERSIONS_KEPT_DEFAULT, SECRETS_PER_TEAM_DEFAULT } from "./secrets/secrets.ts";
import { SNAPSHOTS_PER_TEAM_MAX } from "./templates/snapshots.ts";
import { VOLUME_CONTENTS_PER_TEAM_MAX } from "./volumes/content-quota.ts";
import { VOLUME_BOUNDS_DEFAULT } from "./volumes/volumes.ts";
import { WEBHOOKS_PER_TEAM_MAX } from "./webhooks/webhooks.ts";

const LATER = "429 with `Retry-After`";
const NOT_LATER = "429 without `Retry-After`";
const rate = (perSecond: number) => `${perSecond} each second, ${perSecond * REQUEST_BURST_SECONDS} at once`;

const OF_SANDBOXES = limitRows([
  [
    "sandbox",
    "processors",
    `${CPU_COUNT_DEFAULT} (${CPU_COUNT_MIN} to ${CPU_COUNT_MAX})`,
    "programs share them",
    "`cpuCount` of the template's build",
  ],
  [
    "sandbox",
    "memory",
    `${MEMORY_DEFAULT_MB} MB (${MEMORY_MIN_MB} to ${MEMORY_MAX_MB})`,
    "the kernel kills a process",
    "`memoryMB` of the template's build",
  ],
  ["sandbox", "disk", `${DISK_SIZE_DEFAULT_MB} MB`, "`ENOSPC`; 507 for uploads"],
  ["sandbox", "mounted volumes", VOLUME_BOUNDS_DEFAULT.mountsPerSandbox, "400", "SANDLOT_VOLUMES_PER_SANDBOX"],
  [
    "sandbox",
    "stored log lines",
    `${LOG_LINES_PER_SANDBOX_MAX}, ${inBytes(LOG_BYTES_PER_SANDBOX_MAX)}`,
    "the oldest are removed",
  ],
  ["sandbox", "queued changes of network rules", EGRESS_CHANGES_WAITING_MAX, LATER],
  ["sandbox", "host names with header rules", RULE_NAMES_MAX, "400"],
  ["sandbox", "identity tokens", IDENTITY_TOKENS_MAX, "400"],
  ["sandbox", "requests that wait for headers of a rule", RULE_QUESTIONS_WAITING_MAX, "502 inside the sandbox"],
  ["sandbox", "headers that rules set on a request", inBytes(RULE_ANSWER_MAX_BYTES), "502 inside the sandbox"],
  [
    "sandbox",
    "recorded hosts for which a sandbox used a secret",
    USE_HOSTS_PER_SANDBOX_MAX,
    "further ones are counted under the pattern of the rule",
  ],
]);

const OF_TEAMS = limitRows([
  ["team", "running sandboxes", "none", NOT_LATER, "`sandlot limits TEAM sandboxes=N`"],
  ["team", "duration of a run", "none", "400 for a longer timeout", "`sandlot limits TEAM hours=H`"],
  [
    "team",
    "reading requests",
    rate(REQUEST_RATES_DEFAULT.reads),
    LATER,
    "SANDLOT_READS_PER_SECOND, `sandlot limits TEAM reads=N`",
  ],
  [
    "team",
    "changing requests",
    rate(REQUEST_RATES_DEFAULT.changes),
    LATER,
    "SANDLOT_CHANGES_PER_SECOND, `sandlot limits TEAM changes=N`",
  ],
  ["team", "requests for files of volumes", rate(REQUEST_RATES_DEFAULT.files), LATER, "SANDLOT_FILES_PER_SECOND"],
  ["team", "JSON bodies in transit", inBytes(BODIES_PER_TEAM_MAX_BYTES), LATER],
  [
    "team",
    "bytes of JSON bodies",
    `${inBytes(BODY_BYTES_PER_TEAM_PER_SECOND)} each second, ${inBytes(BODY_BYTES_PER_TEAM_BURST)} at once`,
    LATER,
  ],
  [
    "team",
    "concurrent builds of a team",
    "those of the server; one less if there are several teams",
    "further builds are queued; their logs say so",
    "`sandlot limits TEAM builds=N`",
  ],
  ["team", "queued builds", BUILD_LIMITS_DEFAULT.waitingPerTeam, NOT_LATER, "SANDLOT_BUILDS_WAITING"],
  [
    "build",
    "time until a build starts",
    `${BUILD_WITHOUT_UPLOAD_MS / 60_000} minutes after the last upload; ${BUILD_START_WITHIN_MS / 3_600_000} hours`,
    "the build fails",
  ],
  ["team", "concurrent uploads for builds", UPLOADS_AT_ONCE_PER_TEAM, LATER],
  ["team", "stored uploads for builds", `${UPLOADS_PER_TEAM_MAX}, ${inBytes(UPLOADS_PER_TEAM_MAX_BYTES)}`, "507"],
  ["team", "volumes", VOLUME_BOUNDS_DEFAULT.perTeam, NOT_LATER, "SANDLOT_VOLUMES_PER_TEAM"],
  ["team", "secrets", SECRETS_PER_TEAM_DEFAULT, "409", "`sandlot limits TEAM secrets=N`"],
  [
    "team",
    "kept versions of a secret",
    SECRET_VERSIONS_KEPT_DEFAULT,
    "older ones are removed",
    "`sandlot limits TEAM secretVersions=N`",
  ],
  ["team", "recorded uses of a secret", SECRET_USES_KEPT_MAX, "those of the longest ago are removed"],
  ["server", "published signing keys", SIGNING_KEYS_MAX, "409 for a further rotation"],
  ["team", "volumes with concurrent file requests", VOLUME_CONTENTS_PER_TEAM_MAX, LATER],
  ["team", "API keys", API_KEYS_PER_TEAM_MAX, NOT_LATER],
  ["user", "logins of a user or API key", LOGINS_PER_OWNER_MAX, "the oldest ends"],
  ["user", "access tokens", ACCESS_TOKENS_PER_USER_MAX, NOT_LATER],
  ["team", "idempotency keys in 24 hours", IDEMPOTENCY_KEYS_PER_TEAM_MAX, NOT_LATER],
  ["team", "snapshots", SNAPSHOTS_PER_TEAM_MAX, NOT_LATER],
  ["team", "webhooks", WEBHOOKS_PER_TEAM_MAX, NOT_LATER],
  ["team", "queued deliveries of a webhook", DELIVERIES_WAITING_MAX, "further deliveries are recorded as failed"],
  [
    "team",
    "log lines of all sandboxes of a team",
    `${inBytes(LOG_TEAM_BYTES_PER_SECOND)} each second`,
    "further lines are dropped; one line gives their number",
  ],
]);

const OF_REQUESTS = limitRows([
  [
    "address",
    "requests without a valid key",
    `${UNAUTHENTICATED_REQUESTS_PER_SECOND} each second, ${UNAUTHENTICATED_REQUESTS_BURST} at once`,
    LATER,
  ],
  [
    "address",
    "attempts to sign in",
    `${LOGIN_TRIES_AT_ONCE} at once, then ${LOGIN_TRIES_PER_MINUTE} each minute; ${EMAIL_TRIES_AT_ONCE} and ${EMAIL_TRIES_PER_MINUTE} for an email address`,
    LATER,
  ],
  ["server", "passwords being checked", PASSWORD_CHECKS_MAX, "503 with `Retry-After`"],
  ["address", "links with an invalid signature", `${LINK_MISSES_MAX} in a minute`, LATER],
  ["request", "body of a request", inBytes(REQUEST_BODY_MAX_BYTES), "413"],
  ["request", "body of a create or build request", inBytes(REQUEST_LARGE_BODY_MAX_BYTES), "413"],
  ["request", "time for a body to arrive", `${REQUEST_BODY_MS / 1000} s`, "408"],
  ["server", "JSON bodies of all teams in transit", inBytes(BODIES_MAX_BYTES), LATER],
  ["request", "values in a body", REQUEST_VALUES_MAX, "400"],
  ["request", "nesting levels of a body", JSON_DEPTH_MAX, "400"],
  ["request", "entries of metadata", METADATA_ENTRIES_MAX, "400"],
  ["request", "key of metadata", `${METADATA_KEY_MAX_CHARS} characters`, "400"],
  ["request", "total metadata", inBytes(METADATA_MAX_BYTES), "400"],
  ["request", "one environment variable", inBytes(ENV_VARIABLE_MAX_BYTES), "400"],
  ["request", "total environment variables", inBytes(ENV_TOTAL_MAX_BYTES), "400"],
  ["request", "`mcp` of a create", inBytes(MCP_MAX_BYTES), "400"],
  ["request", "entries of a network list", EGRESS_ENTRIES_MAX, "400"],
  ["request", "name of a header rule", `${RULE_NAME_MAX_CHARS} characters`, "400"],
  ["request", "headers of a rule", RULE_HEADERS_MAX, "400"],
  ["request", "name of a header of a rule", `${RULE_HEADER_NAME_MAX_CHARS} characters`, "400"],
  ["request", "value of a header of a rule", `${RULE_HEADER_VALUE_MAX_CHARS} characters`, "400"],
  ["request", "placeholders of a rule", RULE_PLACEHOLDERS_MAX, "400"],
  ["request", "value of a secret", inBytes(SECRET_VALUE_MAX_BYTES), "400"],
  ["request", "entries of a secret's metadata", SECRET_METADATA_ENTRIES_MAX, "400"],
  ["request", "total metadata of a secret", inBytes(SECRET_METADATA_MAX_BYTES), "400"],
  ["request", "copies of a fork", FORK_COUNT_MAX, "400"],
  ["request", "entries of a page", PAGE_MAX, "400"],
  [
    "volume",
    "size of a volume",
    `${VOLUME_BOUNDS_DEFAULT.sizeMaxMB} MB`,
    "400; `ENOSPC` in a full volume",
    "SANDLOT_VOLUME_SIZE_MAX_MB",
  ],
]);

const OF_BUILDS = limitRows([
  [
    "server",
    "concurrent builds",
    BUILD_LIMITS_DEFAULT.atOnce,
    "further builds are queued; their logs say so",
    "SANDLOT_BUILDS",
  ],
  ["build", "steps of a build", BUILD_LIMITS_DEFAULT.stepsMax, "400", "SANDLOT_BUILD_STEPS"],
  ["build", "argument of a step", inBytes(STEP_ARGUMENT_MAX_BYTES), "400"],
  [
    "build",
    "log of a build",
    inBytes(BUILD_LIMITS_DEFAULT.logMaxBytes),
    "the rest is dropped; one line says so",
    "SANDLOT_BUILD_LOG_MB",
  ],
  ["build", "size of an upload for a build", inBytes(BUILD_LIMITS_DEFAULT.uploadMaxBytes), "413", "SANDLOT_UPLOAD_MB"],
  ["build", "size of a Dockerfile", inBytes(DOCKERFILE_MAX_BYTES), "400"],
  ["build", "instructions of a Dockerfile", DOCKERFILE_INSTRUCTIONS_MAX, "400"],
]);

export const CONTROL_LIMITS: readonly Limit[] = [...OF_SANDBOXES, ...OF_TEAMS, ...OF_REQUESTS, ...OF_BUILDS];
