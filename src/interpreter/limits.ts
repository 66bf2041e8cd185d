/** Limits that several files of this module share. Units come last in a name. */

/** Maximum size of one kernel message, such as a picture or text printed at once. Larger ones are dropped. */
export const KERNEL_MESSAGE_MAX_BYTES = 256 * 1024 * 1024;
export const KERNEL_MESSAGE_MAX_FRAMES = 64;
/** Python takes about a second to start, or a minute when many start at once on a busy host. */
export const KERNEL_START_MS = 90_000;
/** For reading what a kernel that has ended said before. */
export const KERNEL_FINAL_OUTPUT_MS = 2_000;
/** Maximum size of a request. Code with data in it can be large; larger data belongs into a file. */
export const REQUEST_MAX_BYTES = 64 * 1024 * 1024;
/** Each context is a process; memory usually runs out long before this. */
export const CONTEXTS_MAX = 500;
/** Per context. */
export const EXECUTIONS_WAITING_MAX = 1_000;
/** The kernel is stopped when its client has this many unread bytes. */
export const OUTPUT_HELD_FROM_BYTES = 4 * 1024 * 1024;
