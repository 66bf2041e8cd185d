/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** Of one message from a kernel, such as a picture or all that was printed at once. What is larger is left out. */
export const KERNEL_MESSAGE_MAX_BYTES = 256 * 1024 * 1024;
export const KERNEL_MESSAGE_MAX_FRAMES = 64;
/** Python takes about a second to start, and a minute where many start at once on a busy machine. */
export const KERNEL_START_MS = 90_000;
export const KERNEL_CONNECT_AGAIN_MS = 10;
/** Between two questions whether a new kernel hears and is heard. */
export const KERNEL_ASK_AGAIN_MS = 200;
/** For what the server itself has a kernel do, such as setting a variable. */
export const KERNEL_CHORE_MS = 20_000;
/** A kernel that was told to end by its own cell. */
export const KERNEL_EXIT_MS = 5_000;
/** For reading what a kernel that has ended said before. */
export const KERNEL_LAST_WORDS_MS = 2_000;
/** Of what the process that kernels are forked from says: a number or two. */
export const SEED_LINE_MAX_BYTES = 1_024;
/** Of what a kernel writes to its own error output while it starts; shown when it does not. */
export const KERNEL_LOG_MAX_CHARS = 4_000;

/** Of a request. Code with data in it can be large; what is larger belongs into a file. */
export const REQUEST_MAX_BYTES = 64 * 1024 * 1024;
/** Each is a process of its own; memory is short long before. */
export const CONTEXTS_MAX = 500;
/** In one context. */
export const EXECUTIONS_WAITING_MAX = 1_000;
/** Without another line of its stream. */
export const KEEPALIVE_MS = 5_000;
/** A connection without a request; as long as clients are used to. */
export const CONNECTION_IDLE_MS = 640_000;
/** Of output that its client has not taken: from here on the kernel is stopped, */
export const OUTPUT_HELD_FROM_BYTES = 4 * 1024 * 1024;
/** until no more than this is left. */
export const OUTPUT_HELD_TO_BYTES = 1024 * 1024;
/** What goes on to print while the kernel is stopped is left out beyond this. */
export const OUTPUT_WAITING_MAX_BYTES = KERNEL_MESSAGE_MAX_BYTES + OUTPUT_HELD_FROM_BYTES;
/** After the first interrupt of a cell whose client has left, when it still runs. */
export const INTERRUPT_AGAIN_MS = [1_000, 3_000] as const;
/** Then the kernel is replaced. */
export const INTERRUPT_KILL_MS = 5_000;
export const SANDBOX_VARIABLES_MS = 2_000;
export const SANDBOX_VARIABLES_MAX_BYTES = 16 * 1024 * 1024;
/** A used spare is replaced when no code has run for this long, */
export const SPARE_REFILL_IDLE_MS = 1_000;
/** or after this long, if some always runs. */
export const SPARE_REFILL_MAX_MS = 20_000;
/** Of the server's own log, until it is started anew: code in the sandbox can make it say things. */
export const LOG_LINES_MAX = 10_000;
