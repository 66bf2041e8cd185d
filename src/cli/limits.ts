/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** Sandboxes of one template that are kept ready. */
export const READY_MAX = 64;
/** Requests and streams to all sandboxes at once; the most that Bun takes. */
export const REQUESTS_TO_SANDBOXES_MAX = 65_336;
