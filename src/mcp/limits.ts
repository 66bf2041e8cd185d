/** Limits that several files of this module share. Units come last in a name. */

export const REQUEST_MAX_BYTES = 32 * 1024 * 1024;
export const LIST_MS = 30_000;
