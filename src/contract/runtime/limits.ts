/** Limits that the host and the guest share. */

export const SANDBOX_PIDS_MAX = 4096;

/**
 * Maximum line on the way to the host. The guest cuts texts when it records them, so a correct guest never reaches it.
 */
export const JOURNAL_LINE_MAX_BYTES = 16 * 1024;
export const JOURNAL_TEXT_MAX_CHARS = 1024;
export const JOURNAL_FIELDS_MAX = 24;
export const JOURNAL_FIELD_NAME_MAX_CHARS = 64;
