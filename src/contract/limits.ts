/** Limits that several modules share. Units come last in a name. */

export const INT32_MAX = 2_147_483_647;

/** Changes that a call, or a request to a sandbox, waits through for a sandbox in transition. */
export const TRANSITION_ROUNDS_MAX = 3;
export const JSON_DEPTH_MAX = 64;

/** Logs, metrics, events and deliveries are neither kept nor shown for longer. */
export const ACTIVITY_KEPT_MS = 7 * 24 * 3600 * 1000;
