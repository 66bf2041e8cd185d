/** Bounds of what is done with one sandbox. Units come last in a name. */

/** How long an ending may keep one of the places for endings; usually it takes a tenth of a second. */
export const ENDING_PLACE_MS = 2_000;
