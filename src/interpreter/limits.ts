/** Limits that several files of this module share. Units come last in a name. */

/** Maximum size of one kernel message, such as a picture or text printed at once. Larger ones are dropped. */
export const KERNEL_MESSAGE_MAX_BYTES = 256 * 1024 * 1024;
/** Python takes about a second to start, or a minute when many start at once on a busy host. */
export const KERNEL_START_MS = 90_000;
/** For reading what a kernel that has ended said before. */
export const KERNEL_FINAL_OUTPUT_MS = 2_000;
/** Maximum size of a request. Code with data in it can be large; larger data belongs into a file. */
export const REQUEST_MAX_BYTES = 64 * 1024 * 1024;
