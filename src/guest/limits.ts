/** Bounds that several files of this module share. Units come last in a name. */

export const OUTPUT_GATHER_MS = 1;
/** Maximum bytes of one read. Output that waits for a listener is sent in batches of up to this size. */
export const OUTPUT_TOGETHER_MAX_BYTES = 1024 * 1024;
export const INPUT_SLICE_MAX_BYTES = 64 * 1024;
export const LIST_STAT_PARALLEL = 32;
/** Garbage estimated for each message of a stream besides its bytes, whatever its size. */
export const GARBAGE_PER_MESSAGE_BYTES = 8 * 1024;
/** The kernel's limits: a path without its closing zero byte, and each name in it. */
export const PATH_MAX_BYTES = 4095;
export const NAME_MAX_BYTES = 255;
/** Maximum length of an error message, including quoted input. */
export const MESSAGE_MAX_CHARS = 2_000;
