/** Bounds that several files of this module share. Units come last in a name. */

/** Of one message from a kernel, such as a picture or all that was printed at once. What is larger is left out. */
export const KERNEL_MESSAGE_MAX_BYTES = 256 * 1024 * 1024;
export const KERNEL_MESSAGE_MAX_FRAMES = 64;
/** Python takes about a second to start, and a minute where many start at once on a busy machine. */
export const KERNEL_START_MS = 90_000;
export const KERNEL_CONNECT_AGAIN_MS = 10;
/** For reading what a kernel that has ended said before. */
export const KERNEL_LAST_WORDS_MS = 2_000;
/** Of a request. Code with data in it can be large; what is larger belongs into a file. */
export const REQUEST_MAX_BYTES = 64 * 1024 * 1024;
/** Each is a process of its own; memory is short long before. */
export const CONTEXTS_MAX = 500;
/** In one context. */
export const EXECUTIONS_WAITING_MAX = 1_000;
/** Of output that its client has not taken: from here on the kernel is stopped, */
export const OUTPUT_HELD_FROM_BYTES = 4 * 1024 * 1024;
