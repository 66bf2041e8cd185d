/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */
import { scaled } from "../work/time-factor.ts";

export const REQUEST_BODY_MAX_BYTES = 1024 * 1024;
/** Of the routes that say so: variables of 1 MiB, escaped as Python's clients do, or the steps of a build. */
export const REQUEST_LARGE_BODY_MAX_BYTES = 4 * 1024 * 1024;
/** From the moment when the key is checked until the whole body is here. */
export const REQUEST_BODY_MS = 60_000;
/** Of bodies that have begun to arrive and whose requests are not answered yet: of one team, and of all. */
export const BODIES_PER_TEAM_MAX_BYTES = 16 * 1024 * 1024;
export const BODIES_MAX_BYTES = 64 * 1024 * 1024;
export const BODIES_RETRY_AFTER_SECONDS = 1;
/** Of the bodies of one team: at once, and each second for good. Parsing them takes the server's only thread. */
export const BODY_BYTES_PER_TEAM_BURST = 16 * 1024 * 1024;
export const BODY_BYTES_PER_TEAM_PER_SECOND = 2 * 1024 * 1024;
/** A body is gathered in a buffer that begins with so much and doubles. */
export const BODY_BUFFER_MIN_BYTES = 4 * 1024;
/** Values in a body, each entry of an object or a list counted: what is wrong is noted for each of them. */
export const REQUEST_VALUES_MAX = 50_000;

export const ACCESS_TOKENS_KEPT = 16;

/** Sandboxes that expire together are removed this many at a time. */
export const REMOVALS_AT_ONCE = 8;
/**
 * A wall-clock jump is noticed at the latest after this; it also keeps every timer far below the 2^31 ms that timers
 * can hold.
 */
export const EXPIRY_SLEEP_MAX_MS = 60_000;
/** How long expiry waits after the store failed before it asks again. */
export const EXPIRY_RETRY_MS = 250;
/** A sandbox that could not be destroyed is tried again after the first of these, doubling up to the second. */
export const REMOVAL_RETRY_MIN_MS = 1_000;
export const REMOVAL_RETRY_MAX_MS = 60_000;
/** One whose end takes longer does not keep the others waiting: it goes on, and the next takes its place. */
export const REMOVAL_WAIT_MS = 1_000;
/** How long a kill waits for a sandbox that is between two states, and is ended after that. */
export const KILL_WAIT_MS = scaled(45_000);
/** How long a call waits for a sandbox that is between two states; TRANSITION_ROUNDS_MAX bounds the changes. */
export const TRANSITION_WAIT_MS = scaled(60_000);
/** That bound when something is to be done with a running sandbox, which others may go on taking in hand. */
export const AT_REST_ROUNDS_MAX = 32;
/** How often a kill looks again when a new run has begun under its hands. */
export const KILL_ROUNDS_MAX = 16;
/** Sandboxes that are due for a pause together are paused this many at a time. */
export const AUTO_PAUSES_AT_ONCE = 4;
/** A pause at the end of a timeout that cannot be done is put off for so long. */
export const AUTO_PAUSE_PUT_OFF_MS = 300_000;
/** What traffic wakes lives at least this long. */
export const WAKE_MIN_SECONDS = 300;
export const FORKS_AT_ONCE = 8;
/** Changes of what may leave one sandbox that wait for each other. */
export const EGRESS_CHANGES_WAITING_MAX = 32;
/** A host that could not be told what may leave a sandbox is told again after the first of these, doubling. */
export const EGRESS_REPAIR_RETRY_MIN_MS = 1_000;
export const EGRESS_REPAIR_RETRY_MAX_MS = 60_000;
export const EGRESS_REPAIRS_AT_ONCE = 8;
/** A checkpoint that could not be removed is tried again after the first of these, doubling up to the second. */
export const CHECKPOINT_REMOVAL_RETRY_MIN_MS = 1_000;
export const CHECKPOINT_REMOVAL_RETRY_MAX_MS = 60_000;
export const CHECKPOINT_REMOVALS_AT_ONCE = 4;
/** While sandboxes are being resumed, the removal of what others were resumed from is put off, at most for so long. */
export const REMOVAL_PUT_OFF_MAX_MS = 5_000;
/** A new checkpoint of a template's started processes that could not be made is tried again after this. */
export const START_REPAIR_RETRY_MS = 600_000;
/** Builds of which it is remembered that theirs could not be made; of others it is tried again. */
export const START_REPAIRS_KNOWN_MAX = 1_000;
/** What templates have left behind is looked for so often. */
export const HOUSEKEEPING_EVERY_MS = 60_000;
/** A snapshot that a newer one has taken the tag of can be used by its build id for so long. */
export const SUPERSEDED_SNAPSHOT_KEPT_MS = 86_400_000;
export const SUPERSEDED_SNAPSHOTS_PER_ROUND = 100;
/** A build of an earlier version of a template that comes with Sandlot can be used by its version for so long. */
export const SUPERSEDED_BUILTIN_KEPT_MS = 86_400_000;
/** Rows read at a time while a list is filtered by metadata. */
export const SCAN_BATCH_ROWS = 500;
export const METADATA_FILTER_PAIRS_MAX = 64;
export const VALIDATION_PROBLEMS_SHOWN = 5;
/** A field's name may be the client's own, and long. */
export const FIELD_SHOWN_MAX_CHARS = 128;
/** So is a value that a message shows. */
export const VALUE_SHOWN_MAX_CHARS = 64;
/** A longer path is cut in log lines. */
export const LOGGED_PATH_MAX_CHARS = 256;
/** The last use of a key is written at most this often. */
export const KEY_USE_WRITTEN_EVERY_MS = 60_000;
/** Every log-in of a user makes one, too. */
export const API_KEYS_PER_TEAM_MAX = 250;
export const ACCESS_TOKENS_PER_USER_MAX = 100;

/** Requests of a team, or of a user: so many seconds' worth at once. Budgets that are remembered, of each sort. */
export const REQUEST_BURST_SECONDS = 10;
export const REQUEST_BUDGETS_MAX = 10_000;
/** Of one address, without a valid key: at once, and each second for good. */
export const STRANGER_REQUESTS_BURST = 1_000;
export const STRANGER_REQUESTS_PER_SECOND = 50;

/** A number that the operator has set beside the server is noticed after this at the latest. */
export const KEPT_READY_LOOK_MS = 5_000;

/** A build that the operator asks for beside the server is begun after this at the latest. */
export const BUILTIN_LOOK_MS = 2_000;
/** Who asks for a template that is being built is to come again after this. */
export const BUILTIN_RETRY_AFTER_SECONDS = 5;
/** Of what the build has said last, in the answer. */
export const BUILTIN_SAID_MAX_CHARS = 200;

/** Guesses at signed links: after so many misses in a window, a client waits. */
export const LINK_MISSES_MAX = 30;
export const LINK_MISSES_WINDOW_MS = 60_000;
export const LINK_CLIENTS_MAX = 10_000;
/** How many sandboxes a link is compared with, the newest first. */
export const LINK_SANDBOXES_MAX = 10_000;

/** What is too old, or too much, is removed in rounds this far apart, in steps of so many rows. */
export const CHRONICLE_SWEEP_MS = 60_000;
export const CHRONICLE_SWEEP_ROWS = 200;
export const CHRONICLE_SWEEP_STEPS = 50;
/** Lines and events go to the store together with those of the next few milliseconds. */
export const LOG_FLUSH_MS = 100;
export const EVENT_FLUSH_MS = 25;
/** The oldest lines of a sandbox go first. */
export const LOG_LINES_PER_SANDBOX_MAX = 20_000;
export const LOG_BYTES_PER_SANDBOX_MAX = 8 * 1024 * 1024;
export const LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
/** Lines of one sandbox that wait for the store; more are dropped, and a line says how many. */
export const LOG_WAITING_MAX_LINES = 5_000;
export const LOG_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** What the guests of one team may add, however many they are: at once, and each second for good. */
export const LOG_TEAM_BURST_MAX_BYTES = 16 * 1024 * 1024;
export const LOG_TEAM_BYTES_PER_SECOND = 256 * 1024;
/** Sandboxes whose lines are written in one transaction. */
export const LOG_PAGES_PER_WRITE = 32;
/** Sandboxes whose logs control has at hand; of others it reads again where they end. */
export const LOG_SANDBOXES_KNOWN_MAX = 10_000;
export const METRIC_EVERY_MS = 5_000;
/** A new sandbox is measured first after this. */
export const METRIC_FIRST_MS = 1_000;
/** Samples lie together in blocks of so long, which are written so often. */
export const METRIC_BLOCK_MS = 600_000;
export const METRIC_WRITE_MS = 60_000;
export const METRIC_BLOCKS_PER_WRITE = 32;
/** Events that wait for the store. */
export const EVENTS_WAITING_MAX = 10_000;
export const EVENTS_PER_WRITE = 64;
/**
 * Metadata of a sandbox that is longer is not repeated in its events: each is stored, and a short request makes one.
 */
export const EVENT_METADATA_MAX_CHARS = 16 * 1024;
export const WEBHOOKS_PER_TEAM_MAX = 20;
/** Each is a disk, and most have a memory. */
export const SNAPSHOTS_PER_TEAM_MAX = 1_000;
/** Deliveries under way: of all, of one team, to one webhook. A slow receiver holds up nobody but itself. */
export const DELIVERIES_AT_ONCE = 64;
export const DELIVERIES_PER_TEAM_AT_ONCE = 8;
export const DELIVERIES_PER_WEBHOOK_AT_ONCE = 2;
export const DELIVERY_ATTEMPTS_MAX = 4;
export const DELIVERY_RETRY_MS = 10_000;
/** From the look-up of the name to the end of the answer's head. */
export const DELIVERY_MS = 10_000;
/** Of an answer's head, and of all that goes before the answer; of its body nothing is read. */
export const DELIVERY_ANSWER_MAX_BYTES = 8 * 1024;
/** Deliveries of one webhook that are still to be made; later events are recorded as failed. */
export const DELIVERIES_WAITING_MAX = 1_000;
export const DELIVERIES_KEPT_MAX = 10_000;
/** How long deliveries rest after the store failed. */
export const DELIVERY_STORE_RETRY_MS = 1_000;
export const WEBHOOK_STATS_BUCKET_MS = 3_600_000;
/** Of a body that says to be a form: where its first bracket is looked for. */
export const JSON_BEGINS_WITHIN_BYTES = 64;

/** How long logs and events wait after the store failed. */
export const CHRONICLE_STORE_RETRY_MS = 1_000;
export const LOG_PAGES_PER_READ = 64;

export const DOCKERFILE_MAX_BYTES = 64 * 1024;
export const DOCKERFILE_INSTRUCTIONS_MAX = 1_000;

/** The kernel starts no process with a longer argument (MAX_ARG_STRLEN); the rest is left for what is put around it. */
export const STEP_ARGUMENT_MAX_BYTES = 120 * 1024;
/** PATH_MAX, without the zero at its end. */
export const STEP_PATH_MAX_BYTES = 4095;
/** The logs of the builds that ended first go first, so many entries in a step. */
export const BUILD_LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
export const BUILD_LOG_SWEEP_ENTRIES = 5_000;
/** A build that nobody has started for so long is over: it held a place among those that wait. */
export const BUILD_START_WITHIN_MS = 2 * 3_600_000;
/** So is one whose template got no upload for so long, and none is under way. */
export const BUILD_WITHOUT_UPLOAD_MS = 15 * 60_000;
/** How long the image of a build that has ended is nobody's to remove, whatever was read of the store before. */
export const IMAGE_IN_HAND_MS = 60_000;
/** Of a request: what a client uploads in it takes as long at most. */
export const UPLOAD_LINK_SECONDS = 3_600;
export const UPLOADS_AT_ONCE_PER_TEAM = 32;
export const UPLOADS_PER_TEAM_MAX = 10_000;
export const UPLOADS_PER_TEAM_MAX_BYTES = 20 * 1024 ** 3;
/** Uploaded files that no build has used for so long are removed, in rounds this far apart. */
export const UPLOADS_KEPT_MS = 24 * 3_600_000;
export const UPLOADS_SWEEP_MS = 3_600_000;

/** No smaller volume has room for a journal and anything else. */
export const VOLUME_MIN_MB = 32;
export const VOLUME_TOKEN_MS = 3_600_000;
/** Volumes that the clients of one team read and write at the same time; when to come again beyond that. */
export const VOLUME_CONTENTS_PER_TEAM_MAX = 16;
export const VOLUME_CONTENT_RETRY_AFTER_SECONDS = 1;
/** Ours have less than half of it. */
export const VOLUME_TOKEN_MAX_CHARS = 1024;
/** Sandboxes and snapshots that a refusal names. */
export const VOLUME_USERS_SHOWN = 10;
/** A volume that could not be removed is tried again after the first of these, doubling up to the second. */
export const VOLUME_REMOVAL_RETRY_MIN_MS = 1_000;
export const VOLUME_REMOVAL_RETRY_MAX_MS = 60_000;
export const VOLUME_REMOVALS_AT_ONCE = 2;
/** Volumes of all teams that are formatted at once; it takes tools and a device for each. Teams take turns. */
export const VOLUMES_MADE_AT_ONCE = 4;

/** So often names of private networks are looked up, and changed limits of teams are noticed. */
export const PRIVATE_NETWORKS_LOOK_MS = 30_000;
/** A name without an address keeps those that it had for so long. */
export const PRIVATE_NAME_KEPT_MS = 10 * 60_000;
/** In so many rounds after a change all running sandboxes of a team are told. */
export const PRIVATE_NETWORKS_RENEWALS = 3;
