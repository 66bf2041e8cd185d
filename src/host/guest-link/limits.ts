/** Bounds of what the host asks guests. Units come last in a name. */

/** Of many journals so many are taken up at once, and then so long nothing. */
export const JOURNAL_TURN = 8;
export const JOURNAL_TURN_MS = 10;
/** A guest that starts is looked for after so long at most, also when they all take longer at the moment. */
export const GUEST_LOOK_FIRST_MAX_MS = 40;
