/** Bounds that several files of this module share. Units come last in a name. */

/**
 * The largest part of the ready pool that one owner may get, and how many owners of a template are counted separately.
 */
export const READY_OWNERS_PART = 0.8;
export const READY_OWNERS_MAX = 256;
