/** Bounds that several files of this module share. Units come last in a name. */

import { scaled } from "../base/time-factor.ts";
import { inBytes, type Limit } from "../contract/limit.ts";

/** A piece of a request's body up to this is joined with what stands before it; longer ones are not copied for that. */
export const EDGE_JOINED_PIECE_MAX_BYTES = 16 * 1024;
/** Of one answer, between the sandbox's connection and the client's: above this the sandbox is held back. */
export const EDGE_ANSWER_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** Of one request, between the client's connection and the sandbox's: above this the client is held back. */
export const EDGE_REQUEST_WAITING_MAX_BYTES = 1024 * 1024;
/** Of one connection whose sandbox has used up its share of that: above this the side that sends is held back. */
export const EDGE_HELD_MIN_BYTES = 64 * 1024;
/** What the kernel keeps for a client without having sent it. What is on its way does not count. */
export const EDGE_UNSENT_MAX_BYTES = 512 * 1024;
/** Counted for each waiting piece besides its bytes, so that a trickle of tiny pieces is bounded, too. */
export const EDGE_ANSWER_PIECE_OVERHEAD_BYTES = 128;
/** So much must be left of a body of known length for the kernel to move it. */
export const EDGE_SPLICED_MIN_BYTES = 1024 * 1024;
/** Of one connection, in one turn of the event loop; what is behind them waits for another turn. */
export const EDGE_CHUNKS_AT_ONCE_MAX = 2048;
/** A path that still changes after so many percent-decodings hides something, and is refused on the runtime port. */
export const EDGE_PATH_DECODINGS_MAX = 8;
export const EDGE_ANSWER_HEAD_MAX_BYTES = 64 * 1024;
/** How long a sandbox may take for what is left to send to it when a connection is closed. */
export const EDGE_CLOSE_MS = 5000;
/** A silent connection to a sandbox is asked so often whether it is still there. */
export const EDGE_KEEPALIVE_MS = 20_000;
/** The head of a client's request: its first line and its headers. */
export const EDGE_REQUEST_HEAD_MAX_BYTES = 16 * 1024;
export const EDGE_REQUEST_HEAD_MAX_LINES = 198;
/** From a head's first byte to its last; and for the handshake of TLS. */
export const EDGE_REQUEST_HEAD_MS = 12_000;
/** How long a client's connection may carry nothing between two requests. */
export const EDGE_IDLE_MS = 255_000;
/**
 * What a client may send before it is asked for more, of one request and of all on its connection. With 2 MiB, uploads
 * wait for processors that are busy.
 */
export const EDGE_HTTP2_WINDOW_BYTES = 8 * 1024 * 1024;
/**
 * Of the bodies on one connection that services have not taken: above this the connection is not read. Its window is
 * opened whether a service takes the bytes or not, so that one slow service does not hold up the others.
 */
export const EDGE_HTTP2_UNTAKEN_MAX_BYTES = 16 * 1024 * 1024;
/** When nothing of them is taken for so long, the largest are reset: what services wait for may be behind them. */
export const EDGE_HTTP2_UNTAKEN_MS = 30_000;
/** So often a process is asked whether it is of use; after so many questions without an answer it is ended. */
export const EDGE_PROCESS_PING_MS = scaled(5_000);
export const EDGE_PROCESS_PINGS_MISSED_MAX = 2;
/** What the server and a process tell each other in one line; the longest are tables of all routes. */
export const EDGE_PROCESS_LINE_MAX_BYTES = 32 * 1024 * 1024;
/** Sandboxes and teams of which it is counted what all processes carry for them. */
export const EDGE_COUNTS_MAX = 16_384;
/** Requests, streams and WebSockets that are carried at once. */
export interface ConnectionLimits {
  perSandbox: number;
  perTeam: number;
}
export const EDGE_CONNECTIONS_DEFAULT: ConnectionLimits = { perSandbox: 2_500, perTeam: 20_000 };
/** What clients of sandbox URLs, and services behind them, can run into. */
export const EDGE_LIMITS: readonly Limit[] = [
  {
    name: "concurrent requests, streams and WebSockets to a sandbox",
    scope: "sandbox",
    value: `${EDGE_CONNECTIONS_DEFAULT.perSandbox} at once`,
    error: "429 without `Retry-After`",
    setting: "SANDLOT_CONNECTIONS_PER_SANDBOX",
  },
  {
    name: "concurrent requests, streams and WebSockets of a team",
    scope: "team",
    value: `${EDGE_CONNECTIONS_DEFAULT.perTeam} at once`,
    error: "429 without `Retry-After`",
    setting: "SANDLOT_CONNECTIONS_PER_TEAM",
  },
  {
    name: "response bytes not yet read by a client",
    scope: "connection",
    value: inBytes(EDGE_ANSWER_WAITING_MAX_BYTES),
    error: "the service blocks; no data is lost",
  },
  {
    name: "HTTP/2 request bodies not yet read by services",
    scope: "connection",
    value: inBytes(EDGE_HTTP2_UNTAKEN_MAX_BYTES),
    error: `the client waits; after ${EDGE_HTTP2_UNTAKEN_MS / 1000} s without progress the largest are reset`,
  },
  {
    name: "response head of a service",
    scope: "request",
    value: inBytes(EDGE_ANSWER_HEAD_MAX_BYTES),
    error: "502; the port counts as closed",
  },
];
