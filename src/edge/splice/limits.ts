/** Bounds that several files of this module share. Units come last in a name. */

/** Bodies that a process of the edge has the kernel move at once; of all others, it moves the bytes itself. */
export const SPLICES_MAX = 16;
/** Of one body, between two connections: pages that the kernel holds. All processes together stay within a user's. */
export const SPLICE_PIPE_BYTES = 512 * 1024;
/** Kept for the next body. */
export const SPLICE_IDLE_PIPES_MAX = 4;
