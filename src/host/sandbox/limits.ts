/** Bounds of what is done with one sandbox. Units come last in a name. */
import { availableParallelism } from "node:os";
import { RESTORES_AT_ONCE_MAX } from "../limits.ts";

/** How long an ending may keep one of the places for endings; usually it takes a tenth of a second. */
export const ENDING_PLACE_MS = 2_000;

/**
 * A boot is work of processors: with two for each of them none is idle, and more would only make all of them late, and
 * whoever asks the server for something else. Its own thread has a part in each.
 */
export const BOOTS_AT_ONCE_MAX = Math.min(Math.max(2 * availableParallelism(), 4), 32);

/** Restores, with those that are prepared while others are restored, and those whose guest has yet to answer. */
export const RESTORES_BEGUN_MAX = 2 * RESTORES_AT_ONCE_MAX;

/** How long a create waits, when all network slots are in use, for one that is given back. */
export const SLOT_WAIT_MS = 5_000;
