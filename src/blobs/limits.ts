/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

export const BLOB_NAME_MAX_CHARS = 256;
/** Of a blob that is read, so much is in memory. */
export const BLOB_READ_BYTES = 256 * 1024;
/** Of the disk that blobs lie on, so much stays free: the store and what runs need it more. Looked at so often. */
export const BLOB_DISK_FREE_MIN_BYTES = 1024 ** 3;
export const BLOB_DISK_LOOK_BYTES = 16 * 1024 * 1024;
