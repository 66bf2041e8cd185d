/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

export const BLOB_NAME_MAX_CHARS = 256;
/** Of a blob that is read, so much is in memory. */
export const BLOB_READ_BYTES = 256 * 1024;
