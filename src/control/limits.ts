/** Limits that several files of this module share. Units come last in a name. */

/** For create and build routes: 1 MiB of variables, escaped as Python's clients do, or the steps of a build. */
export const REQUEST_LARGE_BODY_MAX_BYTES = 4 * 1024 * 1024;
/** A jump of the wall clock is noticed within this time. It also keeps every timer far below the maximum of 2^31 ms. */
export const EXPIRY_SLEEP_MAX_MS = 60_000;
/** Delay before expiry retries after a failure of the store. */
export const EXPIRY_RETRY_MS = 250;
/** A field's name in a message may be the client's own, and long. */
export const FIELD_SHOWN_MAX_CHARS = 128;
/** A client's value in a message may be long. */
export const VALUE_SHOWN_MAX_CHARS = 64;
/** Burst of a request budget, in seconds of its rate; and the number of budgets remembered of each kind. */
export const REQUEST_BURST_SECONDS = 10;
export const REQUEST_BUDGETS_MAX = 10_000;
/** Old and surplus records are removed at this interval, in steps of this many rows. */
export const ACTIVITY_SWEEP_MS = 60_000;
export const ACTIVITY_SWEEP_ROWS = 200;
export const ACTIVITY_SWEEP_STEPS = 50;
/** Beyond these, the oldest lines are removed. */
export const LOG_LINES_PER_SANDBOX_MAX = 20_000;
export const LOG_BYTES_PER_SANDBOX_MAX = 8 * 1024 * 1024;
export const LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
export const METRIC_EVERY_MS = 5_000;
/** Pending deliveries of one webhook. Later events are recorded as failed. */
export const DELIVERIES_WAITING_MAX = 1_000;
export const DELIVERIES_KEPT_MAX = 10_000;
/** Delay before logs and events retry after a failure of the store. */
export const ACTIVITY_STORE_RETRY_MS = 1_000;
/** A waiting build ends after this time without an upload for its template. */
export const BUILD_WITHOUT_UPLOAD_MS = 15 * 60_000;
/** Uploaded files that no build has used for this long are removed, at the interval below. */
export const UPLOADS_KEPT_MS = 24 * 3_600_000;
export const UPLOADS_SWEEP_MS = 3_600_000;
/** A smaller volume has no room for a journal and content. */
export const VOLUME_MIN_MB = 32;
export const VOLUME_TOKEN_MS = 3_600_000;
