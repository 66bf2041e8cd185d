/** Bounds that several files of this module share. Units come last in a name. */

/** Of the routes that say so: variables of 1 MiB, escaped as Python's clients do, or the steps of a build. */
export const REQUEST_LARGE_BODY_MAX_BYTES = 4 * 1024 * 1024;
/**
 * A wall-clock jump is noticed at the latest after this; it also keeps every timer far below the 2^31 ms that timers
 * can hold.
 */
export const EXPIRY_SLEEP_MAX_MS = 60_000;
/** How long expiry waits after the store failed before it asks again. */
export const EXPIRY_RETRY_MS = 250;
/** A field's name may be the client's own, and long. */
export const FIELD_SHOWN_MAX_CHARS = 128;
/** So is a value that a message shows. */
export const VALUE_SHOWN_MAX_CHARS = 64;
/** Requests of a team, or of a user: so many seconds' worth at once. Budgets that are remembered, of each sort. */
export const REQUEST_BURST_SECONDS = 10;
export const REQUEST_BUDGETS_MAX = 10_000;
/** What is too old, or too much, is removed in rounds this far apart, in steps of so many rows. */
export const ACTIVITY_SWEEP_MS = 60_000;
export const ACTIVITY_SWEEP_ROWS = 200;
export const ACTIVITY_SWEEP_STEPS = 50;
/** The oldest lines of a sandbox go first. */
export const LOG_LINES_PER_SANDBOX_MAX = 20_000;
export const LOG_BYTES_PER_SANDBOX_MAX = 8 * 1024 * 1024;
export const LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
export const METRIC_EVERY_MS = 5_000;
/** Deliveries of one webhook that are still to be made; later events are recorded as failed. */
export const DELIVERIES_WAITING_MAX = 1_000;
export const DELIVERIES_KEPT_MAX = 10_000;
/** How long logs and events wait after the store failed. */
export const ACTIVITY_STORE_RETRY_MS = 1_000;
/** So is one whose template got no upload for so long, and none is under way. */
export const BUILD_WITHOUT_UPLOAD_MS = 15 * 60_000;
/** Uploaded files that no build has used for so long are removed, in rounds this far apart. */
export const UPLOADS_KEPT_MS = 24 * 3_600_000;
export const UPLOADS_SWEEP_MS = 3_600_000;
/** No smaller volume has room for a journal and anything else. */
export const VOLUME_MIN_MB = 32;
export const VOLUME_TOKEN_MS = 3_600_000;
