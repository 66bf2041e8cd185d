/** Limits that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** Maximum connections of the relay: in total, per sandbox, and per sandbox while not connected upstream yet. */
export const RELAY_CONNECTIONS_MAX = 8192;
export const RELAY_CONNECTIONS_PER_SANDBOX_MAX = 1024;
export const RELAY_WAITING_PER_SANDBOX_MAX = 256;
/** Size and time limits of the bytes that name the destination: a TLS hello or an HTTP head. */
export const RELAY_HELLO_MAX_BYTES = 64 * 1024;
export const RELAY_HELLO_MS = 10_000;
/** Time from a name to an open connection in total, time for each address, and the number of addresses to try. */
export const RELAY_DIAL_MS = 30_000;
export const RELAY_DIAL_ADDRESS_MS = 10_000;
export const RELAY_DIAL_ADDRESSES_MAX = 4;
/** Idle connections close after this time; TCP keepalive probes start earlier. */
export const RELAY_IDLE_MS = 2 * 3_600_000;
export const RELAY_KEEPALIVE_MS = 60_000;
/**
 * Memory limit of the relay's process. Address space that Bun reserves for compiled code counts, and on x64 that is a
 * GiB more: with less, Bun runs without compiled code and calls no function of the C library.
 */
export const RELAY_DATA_MAX_BYTES = (process.arch === "x64" ? 3 : 2) * 1024 ** 3;
/** The size of its complaints in the log. */
export const RELAY_COMPLAINT_MAX_CHARS = 2000;
/** Two lists of 1 000 ranges and one of 1 000 names, with some margin. */
export const RELAY_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;
export const RELAY_START_MS = scaled(20_000);
export const RELAY_ANSWER_LOOK_MS = scaled(1_000);
export const RELAY_ANSWER_LOOKS_MAX = 10;
