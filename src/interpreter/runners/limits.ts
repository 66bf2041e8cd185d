/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** Node takes a tenth of a second to start, a JVM one, and a minute where many start at once on a busy machine. */
export const RUNNER_START_MS = 90_000;
/** For what the server itself has a runner do, such as setting a variable. */
export const RUNNER_CHORE_MS = 20_000;
/** After a cell is over: until what it wrote to its own error output has been read. */
export const RUNNER_REST_MS = 10_000;
/** What a runner has ended with is in its pipes; what it has started may hold them open for ever. */
export const RUNNER_LAST_WORDS_MS = 2_000;
/** Of one part of a message: a pipe takes as much as this in one piece, whoever else writes into it. */
export const FRAME_MAX_BYTES = 4_096;
/** Of a message, such as a picture. What is larger is left out. */
export const MESSAGE_MAX_CHARS = 256 * 1024 * 1024;
/** Text without a line end is told after this time, so that somebody sees the dots of a progress bar. */
export const LINE_REST_MS = 100;
/** A line that is longer is told in parts. */
export const LINE_MAX_CHARS = 1024 * 1024;
/** Of what a runner that does not start has said. */
export const START_LOG_MAX_CHARS = 4_000;
/** A cell that has not heard by then that it was interrupted is sent a signal. */
export const SIGNAL_AFTER_MS = 50;
/** And if it has not ended by then, it is stopped in a harder way. */
export const BREAK_LOOP_AFTER_MS = 500;
/** For a kernel whose last cell was interrupted to say that it hears, try after try; then it is replaced. */
export const LEFT_LOOP_MS = [2_000, 6_000] as const;
