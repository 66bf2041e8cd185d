/** Bounds that several files of this module share. Units come last in a name. */

/** With less in it, the pipe of such a process is left to fill for a moment. */
export const OUTPUT_READ_BYTES = 64 * 1024;
export const OUTPUT_GATHER_MS = 1;
/** So much is read at once. Pieces of output that wait for a listener are sent together up to this size. */
export const OUTPUT_TOGETHER_MAX_BYTES = 1024 * 1024;
export const INPUT_SLICE_MAX_BYTES = 64 * 1024;
export const LIST_STAT_PARALLEL = 32;
/** Counted for each message of a stream besides its bytes: what making it leaves behind, whatever its size. */
export const GARBAGE_PER_MESSAGE_BYTES = 8 * 1024;
/** The kernel's own bounds: of a path without its closing zero byte, and of each name in it. */
export const PATH_MAX_BYTES = 4095;
export const NAME_MAX_BYTES = 255;
/** Of a whole message, whoever wrote it. */
export const MESSAGE_MAX_CHARS = 2_000;
/** What an archive may expand to beyond the room on the disk: its headers and the rest of their blocks. */
export const UNPACK_OVERHEAD_MAX_BYTES = 256 * 1024 * 1024;
export const UNPACK_READ_BYTES = 256 * 1024;
