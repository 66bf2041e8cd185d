/** Limits that several files of this module share. Units come last in a name. */
import { scaled } from "../base/time-factor.ts";

/** A chunk of a body up to this size is joined with the bytes before it; larger ones are not copied. */
export const EDGE_JOINED_PIECE_MAX_BYTES = 16 * 1024;
/**
 * Buffered bytes of one response, from the sandbox to the client. Above this the edge stops reading from the sandbox.
 */
export const EDGE_RESPONSE_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** Buffered bytes of one request, from the client to the sandbox. Above this the edge stops reading from the client. */
export const EDGE_REQUEST_WAITING_MAX_BYTES = 1024 * 1024;
/** Buffered bytes of a connection whose sandbox has used up its share. Above this the edge stops reading its sender. */
export const EDGE_HELD_MIN_BYTES = 64 * 1024;
/** Unsent bytes in the kernel's send buffer for a client; bytes in flight do not count. */
export const EDGE_UNSENT_MAX_BYTES = 512 * 1024;
/** Added to the size of each buffered chunk, so that many tiny chunks are limited too. */
export const EDGE_RESPONSE_PIECE_OVERHEAD_BYTES = 128;
/** Minimum rest of a body of known length for splicing. */
export const EDGE_SPLICED_MIN_BYTES = 1024 * 1024;
/** Chunks of one connection that one turn of the event loop parses; the rest waits for a later turn. */
export const EDGE_CHUNKS_AT_ONCE_MAX = 2048;
/** A path that still changes after so many percent-decodings hides something, and is rejected on the runtime port. */
export const EDGE_PATH_DECODINGS_MAX = 8;
export const EDGE_RESPONSE_HEAD_MAX_BYTES = 64 * 1024;
/** How long a sandbox may take to read the rest when a connection closes. */
export const EDGE_CLOSE_MS = 5000;
/** TCP keepalive interval of idle connections to sandboxes. */
export const EDGE_KEEPALIVE_MS = 20_000;
/** The head of a client's request: its request line and headers. */
export const EDGE_REQUEST_HEAD_MAX_BYTES = 16 * 1024;
/** Bun reads at most 199 headers of a management request, and the edge adds up to three. */
export const EDGE_REQUEST_HEAD_MAX_LINES = 196;
/** From the first byte of a head to its last; also for the TLS handshake. */
export const EDGE_REQUEST_HEAD_MS = 12_000;
/** How long a client's connection may be idle between two requests. */
export const EDGE_IDLE_MS = 255_000;
/**
 * HTTP/2 flow control window of a request and of a connection. With 2 MiB, uploads wait for busy processors.
 */
export const EDGE_HTTP2_WINDOW_BYTES = 8 * 1024 * 1024;
/**
 * Unread request bodies of one connection; above this it is not read. The connection's window opens whether or not
 * services read, so that one slow service does not delay the others.
 */
export const EDGE_HTTP2_UNTAKEN_MAX_BYTES = 16 * 1024 * 1024;
/** After this time without progress the largest unread bodies are reset: they may hold up bytes that services need. */
export const EDGE_HTTP2_UNTAKEN_MS = 30_000;
/** Interval of health checks of a process, and the missed replies after which it is killed. */
export const EDGE_PROCESS_PING_MS = scaled(5_000);
export const EDGE_PROCESS_PINGS_MISSED_MAX = 2;
/** Maximum length of a line between the server and a process; the longest are tables of all routes. */
export const EDGE_PROCESS_LINE_MAX_BYTES = 32 * 1024 * 1024;
/** Sandboxes and teams that all processes count together. */
export const EDGE_COUNTS_MAX = 16_384;
/** Concurrent requests, streams and WebSockets. */
export interface ConnectionLimits {
  perSandbox: number;
  perTeam: number;
}
export const EDGE_CONNECTIONS_DEFAULT: ConnectionLimits = { perSandbox: 2_500, perTeam: 20_000 };
