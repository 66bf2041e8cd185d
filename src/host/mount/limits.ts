/** Bounds of what is mounted. */

/** Of the run folder where it has a mount of its own: what /run has on most machines. Only what is used is taken. */
export const RUN_FOLDER_MEMORY = "20%";

/** Of a disk that is cloned; when more than this is not on the machine's disk yet, it is written first. */
export const UNWRITTEN_MAX_BYTES = 8 * 1024 * 1024;

/** Tables of ids that are kept for the next mount with the same: two forms for each of some ranges that are in use. */
export const ID_TABLES_KEPT = 128;
