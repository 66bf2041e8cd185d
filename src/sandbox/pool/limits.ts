/** Bounds that several files of this module share. Units come last in a name. */

/** Of all that is kept ready, the most that is for one owner; and how many owners of a template are told apart. */
export const READY_OWNERS_PART = 0.8;
export const READY_OWNERS_MAX = 256;
