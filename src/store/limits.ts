/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */
import { scaled } from "../work/time-factor.ts";

/** A pause at the end of a timeout that cannot be done is put off so often; then memory is given up. */
export const AUTO_PAUSE_PUT_OFFS_MAX = 3;
/** Room that the store keeps in its files for when the disk is full. */
export const STORE_ROOM_BYTES = 4 * 1024 * 1024;
export const SQLITE_BUSY_MS = scaled(5_000);
/** Compiled statements that are kept; there are about half as many. */
export const SQLITE_STATEMENTS_MAX = 400;
export const POSTGRES_CONNECTIONS_MAX = 10;
/** Each takes six of the values that a statement may have. */
export const BUILD_LOG_ENTRIES_PER_STATEMENT = 100;
/** What an entry of a build's log counts besides its message, so that empty ones are not free. */
export const BUILD_LOG_ENTRY_EXTRA_BYTES = 64;
