/** Limits that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** The kernel's limit for one variable, and the total beside a command's arguments. */
export const BUILD_VALUE_MAX_BYTES = 128 * 1024;
export const BUILD_VARIABLES_MAX_BYTES = 1024 * 1024;
/** Maximum size of an image's manifest and of its configuration. */
export const FETCH_DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;
export const FETCH_COPY_MS = scaled(30 * 60_000);
