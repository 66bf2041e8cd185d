/** Bounds that several files of this module share. Units come last in a name. */

import { availableParallelism } from "node:os";
import { scaled } from "../base/time-factor.ts";

/** A create that failed for no reason that says more is made once more, if the first try was over within so long. */
export const TRIES_MAX = 2;
export const GUEST_CALL_MS = scaled(10_000);
export const CHECKPOINT_MS = scaled(300_000);
export const RESTORE_MS = scaled(300_000);
export const RESTORES_AT_ONCE_MAX = Math.max(4, 2 * availableParallelism());
/** A memory image is at most so many times the sandbox's memory: processes that share some are written one by one. */
export const IMAGE_PER_MEMORY_MAX = 16;
export const IMAGE_WATCH_MS = 250;
/** Processes and files that are looked at before others get their turn on the processor. */
export const LOOKED_AT_TURN = 256;
/** And from when it is told to stop until it is made to. */
export const IMAGE_STOP_MS = scaled(5_000);
/** A file of a memory image up to this size is made durable together with the others. */
export const PACKED_FILE_MAX_BYTES = 128 * 1024;
/** How much of the end of a tool's log is looked at. One that gets twice as long meanwhile is begun anew. */
export const TOOL_LOG_MAX_BYTES = 4 * 1024 * 1024;
/**
 * A guest that starts is looked for after the first, with pauses from the second to the third; whether its sandbox is
 * still there is looked at less often. Each question is waited for longer.
 */
export const [GUEST_LOOK_FIRST_MS, GUEST_LOOK_MIN_MS, GUEST_LOOK_MAX_MS, GUEST_ALIVE_EVERY_MS] = [8, 3, 100, 200];
export const [GUEST_PING_MIN_MS, GUEST_PING_MAX_MS] = [scaled(250), scaled(2_000)];
/** An answer of a guest is a few bytes; a sandbox that sends more is not our guest any more. */
export const GUEST_ANSWER_MAX_BYTES = 4096;
/** Processes that work on the content of volumes: so many at once; one that has nothing to do ends after a while. */
export const CONTENT_PROCESSES_MAX = 64;
export const CONTENT_IDLE_MS = 20_000;
export const CONTENT_START_MS = scaled(10_000);
export const CONTENT_END_MS = scaled(1_000);
