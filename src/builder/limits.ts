/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** The kernel takes no longer variable; and all of them have to fit beside a command's arguments. */
export const BUILD_VALUE_MAX_BYTES = 128 * 1024;
export const BUILD_VARIABLES_NESTED_MAX = 16;
export const BUILD_VARIABLES_MAX_BYTES = 1024 * 1024;
/** Of a build's log: a longer line is told as several; each counts so much besides its text. */
export const BUILD_LOG_LINE_MAX_CHARS = 4096;
export const BUILD_LOG_ENTRY_OVERHEAD_BYTES = 32;
export const BUILD_COMMAND_SHOWN_CHARS = 1024;
/** Of what describes an image: what its name leads to, and its configuration. */
export const FETCH_DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;
/** Nothing comes of a blob. */
export const FETCH_STALLED_MS = scaled(60_000);
export const FETCH_COPY_MS = scaled(30 * 60_000);
export const FETCH_UNPACK_MS = scaled(30 * 60_000);
/** So much of what a tool says last is kept for the reason of a failure. */
export const FETCH_SAID_MAX_CHARS = 4_096;
export const FETCH_REASON_MAX_CHARS = 600;
