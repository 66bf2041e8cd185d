/** Bounds that the host and the guest hold each other to. */

export const SANDBOX_PIDS_MAX = 4096;

/** One line on its way to the host. Texts are cut to fit when they are noted, so an honest line never gets there. */
export const JOURNAL_LINE_MAX_BYTES = 16 * 1024;
export const JOURNAL_TEXT_MAX_CHARS = 1024;
export const JOURNAL_FIELDS_MAX = 24;
export const JOURNAL_FIELD_NAME_MAX_CHARS = 64;
