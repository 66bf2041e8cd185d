/** Bounds of what the kernel moves between connections. Units come last in a name. */

/** Bodies that a process of the edge has the kernel move at once; of all others, it moves the bytes itself. */
export const SPLICES_MAX = 16;
/** Of one body, between two connections: pages that the kernel holds. All processes together stay within a user's. */
export const SPLICE_PIPE_BYTES = 512 * 1024;
/** Kept for the next body. */
export const SPLICE_IDLE_PIPES_MAX = 4;
/** Moved of one body before others have their turn. */
export const SPLICE_TURN_BYTES = 4 * 1024 * 1024;
/** Shorter chunks on average are left to who reads HTTP, who takes many of them at once; so are so many in a row. */
export const SPLICE_CHUNK_MIN_BYTES = 16 * 1024;
export const SPLICE_SHORT_CHUNKS_MAX = 64;
/** A body in chunks of which none follows for so long is given back: it may be silent for hours. */
export const SPLICE_SILENT_MS = 250;
/** Numbers of bodies begin anew above this. */
export const SPLICE_NUMBERS = 1_000_000_000;
