/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

export const GUEST_CALL_MS = scaled(10_000);
export const CHECKPOINT_MS = scaled(300_000);
export const RESTORE_MS = scaled(300_000);
/** Processes or files to examine before yielding the event loop. */
export const ENTRIES_PER_TURN = 256;
/** Time from asking CRIU to stop until it is killed. */
export const IMAGE_STOP_MS = scaled(5_000);
/** How much of the end of a tool's log is read. A log that grows to twice this size is truncated. */
export const TOOL_LOG_MAX_BYTES = 4 * 1024 * 1024;
/** A guest's response has a few bytes. A sandbox that sends more no longer runs our guest. */
export const GUEST_ANSWER_MAX_BYTES = 4096;
