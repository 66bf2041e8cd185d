/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** Of one configuration. */
export const SERVERS_MAX = 64;
export const TOKEN_MAX_BYTES = 4096;

/** The client that starts the gateway gives up after 60 s, and then nobody would hear why. */
export const START_ALL_MS = 55_000;
/** A little more, for the end of what was begun. */
export const READY_MAX_MS = 58_000;
export const READY_REPORT_MAX_BYTES = 64 * 1024;
export const TEMPLATE_PULL_MS = 600_000;
/** Until one server has answered `initialize`. */
export const SERVER_START_MS = 50_000;
/** From the end of a server until its standard error is, too; what it left behind may hold that. */
export const LAST_WORDS_MS = 1_000;
/** From SIGTERM to SIGKILL. */
export const SERVER_END_MS = 2_000;
/** From SIGTERM until the gateway before this one is gone. */
export const FORMER_GATEWAY_END_MS = 5_000;
export const FORMER_GATEWAY_LOOK_MS = 20;

/** A message of a server: one line. One that sends more is ended. */
export const MESSAGE_MAX_BYTES = 32 * 1024 * 1024;
/** Of requests that a server has not read yet. */
export const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;
export const REQUEST_MAX_BYTES = 32 * 1024 * 1024;
/** The last of what a server says on standard error, for error messages. */
export const STDERR_KEPT_BYTES = 4096;
export const LOG_MAX_BYTES = 1024 * 1024;

/** A server that ends is started again at once, then later and later … */
export const RESTART_DELAY_MS = 100;
/** … and after so many ends within the window it rests until somebody calls it after the pause. */
export const RESTARTS_MAX = 5;
export const RESTART_WINDOW_MS = 60_000;
export const RESTART_PAUSE_MS = 30_000;

/** Of one call, from the last sign of progress; a client that gives up cancels it before. */
export const CALL_MS = 3_600_000;
export const LIST_MS = 30_000;
/** At once, of all sessions. */
export const CALLS_MAX = 1_024;
export const LIST_PAGES_MAX = 100;
export const LIST_ENTRIES_MAX = 10_000;
export const INSTRUCTIONS_MAX_CHARS = 16_384;

export const IDLE_CONNECTION_SECONDS = 120;
/** The one that was idle for longest makes room for another. */
export const SESSIONS_MAX = 256;
/** Notifications that a client has not read yet; more are dropped. */
export const UNREAD_NOTIFICATIONS_MAX = 1_024;
export const SUBSCRIPTIONS_MAX = 4_096;
