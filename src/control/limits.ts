/** Limits that several files of this module share. Units come last in a name. */

/** For create and build routes: 1 MiB of variables, escaped as Python's clients do, or the steps of a build. */
export const REQUEST_LARGE_BODY_MAX_BYTES = 4 * 1024 * 1024;
/** A jump of the wall clock is noticed within this time. It also keeps every timer far below the maximum of 2^31 ms. */
export const EXPIRY_SLEEP_MAX_MS = 60_000;
/** What the store failed to do is retried after the first delay, doubling up to the second. */
export const STORE_RETRY_MIN_MS = 250;
export const STORE_RETRY_MAX_MS = 5_000;
/** Beyond this length of a log the oldest lines are removed. */
export const LOG_LINES_PER_SANDBOX_MAX = 20_000;
export const METRIC_EVERY_MS = 5_000;
/** Delay before logs and events retry after a failure of the store. */
export const ACTIVITY_STORE_RETRY_MS = 1_000;
/** A waiting build ends after this time without an upload for its template. */
export const BUILD_WITHOUT_UPLOAD_MS = 15 * 60_000;
