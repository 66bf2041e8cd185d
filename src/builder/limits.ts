/** Limits that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** The kernel's limit for one variable, the nesting depth, and the total beside a command's arguments. */
export const BUILD_VALUE_MAX_BYTES = 128 * 1024;
export const BUILD_VARIABLES_NESTED_MAX = 16;
export const BUILD_VARIABLES_MAX_BYTES = 1024 * 1024;
/** Maximum size of an image's manifest and of its configuration. */
export const FETCH_DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;
/** A download without progress fails after this time. */
export const FETCH_STALLED_MS = scaled(60_000);
export const FETCH_COPY_MS = scaled(30 * 60_000);
export const FETCH_UNPACK_MS = scaled(30 * 60_000);
/** Length of a tool's output that is kept to explain a failure. */
export const FETCH_SAID_MAX_CHARS = 4_096;
export const FETCH_REASON_MAX_CHARS = 600;
