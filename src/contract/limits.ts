/**
 * Bounds that several rooms hold each other to. Those of one room are in its own `limits.ts`. Units come last in a
 * name.
 */

export const INT32_MAX = 2_147_483_647;

/** Through how many changes a call, or a request to a sandbox, waits for one that is between two states. */
export const TRANSITION_ROUNDS_MAX = 3;
export const JSON_DEPTH_MAX = 64;

/** Nothing of logs, metrics, events and deliveries is kept or shown for longer. */
export const ACTIVITY_KEPT_MS = 7 * 24 * 3600 * 1000;
