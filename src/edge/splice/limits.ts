/** Limits that several files of this module share. Units come last in a name. */

/** Concurrent splices of an edge process; it copies all other bodies itself. */
export const SPLICES_MAX = 16;
/** Pipe size of one splice: pages that the kernel holds. All processes together stay within a user's limit. */
export const SPLICE_PIPE_BYTES = 512 * 1024;
/** Idle pipes kept for later splices. */
export const SPLICE_IDLE_PIPES_MAX = 4;
