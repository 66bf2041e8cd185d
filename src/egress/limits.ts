/** Bounds that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** Connections that the relay carries: of all sandboxes, of one, and of one that are not connected further yet. */
export const RELAY_CONNECTIONS_MAX = 8192;
export const RELAY_CONNECTIONS_PER_SANDBOX_MAX = 1024;
export const RELAY_WAITING_PER_SANDBOX_MAX = 256;
/** What a connection says of whom it is for is no longer, and said within this. */
export const RELAY_HELLO_MAX_BYTES = 64 * 1024;
export const RELAY_HELLO_MS = 10_000;
/** From a name to an open connection, however many addresses are tried; and each of them. */
export const RELAY_DIAL_MS = 30_000;
export const RELAY_DIAL_ADDRESS_MS = 10_000;
export const RELAY_DIAL_ADDRESSES_MAX = 4;
/** A connection over which nothing comes for so long is over; the other end is asked for a sign of life before. */
export const RELAY_IDLE_MS = 2 * 3_600_000;
export const RELAY_KEEPALIVE_MS = 60_000;
/** What the process may have of memory, and the log of what it complains about. */
export const RELAY_DATA_MAX_BYTES = 2 * 1024 ** 3;
export const RELAY_COMPLAINT_MAX_CHARS = 2000;
/** Two lists of 1 000 ranges and one of as many names, with some room. */
export const RELAY_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;
export const RELAY_START_MS = scaled(20_000);
export const RELAY_ANSWER_LOOK_MS = scaled(1_000);
export const RELAY_ANSWER_LOOKS_MAX = 10;
