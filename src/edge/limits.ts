/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */
import { inBytes, type Limit } from "../contract/limit.ts";
import { scaled } from "../work/time-factor.ts";

/** Bodies to sandboxes are streamed, so their size is not ours to limit; Bun.serve would by default (128 MiB). */
export const EDGE_REQUEST_BODY_MAX_BYTES = Number.MAX_SAFE_INTEGER;
/** A piece of a request's body up to this is joined with what stands before it; longer ones are not copied for that. */
export const EDGE_JOINED_PIECE_MAX_BYTES = 16 * 1024;
/** Of one answer, between the sandbox's connection and the client's: above this the sandbox is held back. */
export const EDGE_ANSWER_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** Of one request, between the client's connection and the sandbox's: above this the client is held back. */
export const EDGE_REQUEST_WAITING_MAX_BYTES = 1024 * 1024;
/** Of all requests and answers of a process that wait for peers that do not take them. */
export const EDGE_HELD_MAX_BYTES = 96 * 1024 * 1024;
/** Of one connection whose sandbox has used up its share of that: above this the side that sends is held back. */
export const EDGE_HELD_MIN_BYTES = 64 * 1024;
/** What the kernel keeps of an answer that the edge does not read because its client does not keep up. */
export const EDGE_RECEIVED_MAX_BYTES = 64 * 1024;
/** What the kernel keeps for a client without having sent it. What is on its way does not count. */
export const EDGE_UNSENT_MAX_BYTES = 512 * 1024;
/** Counted for each waiting piece besides its bytes, so that a trickle of tiny pieces is bounded, too. */
export const EDGE_ANSWER_PIECE_OVERHEAD_BYTES = 128;
/** So much must be left of a body of known length for the kernel to move it. */
export const EDGE_SPLICED_MIN_BYTES = 1024 * 1024;
/** Of one sandbox, in one process. One whose bodies never end must leave room for those of others. */
export const EDGE_SPLICED_AT_ONCE_MAX = 4;
/** A smaller piece is not worth the work of freeing it by hand. */
export const EDGE_RELEASED_PIECE_MIN_BYTES = 16 * 1024;
/** Of one connection, in one turn of the event loop; what is behind them waits for another turn. */
export const EDGE_CHUNKS_AT_ONCE_MAX = 2048;
/** So long all long pieces together may hold up a turn of the event loop; the others wait for the next one. */
export const EDGE_TURN_MS = 1;
/** A request, and an answer, waits for no turn until so much of it has come. */
export const EDGE_SHORT_BODY_MAX_BYTES = 64 * 1024;
/** How long a refused connection to a sandbox's port is tried again before the port counts as closed. */
export const EDGE_CONNECT_BUDGET_MS = 1000;
/** The same for the runtime port, which is always meant to be up: its daemon may be coming back. */
export const EDGE_RUNTIME_CONNECT_BUDGET_MS = 2000;
/** Pauses between tries grow by this step up to the maximum: 100, 200, 300, 400, 400 … */
export const EDGE_CONNECT_PAUSE_STEP_MS = 100;
export const EDGE_CONNECT_PAUSE_MAX_MS = 400;
/** When to come again to a sandbox that could not be resumed just now. */
export const EDGE_RETRY_AFTER_SECONDS = 5;
/** How long, and for how many ports, the edge remembers the way to a service on a loopback address. */
export const EDGE_FORWARD_KEPT_MS = 10_000;
export const EDGE_FORWARDS_KEPT = 4096;
/** A path that still changes after so many percent-decodings hides something, and is refused on the runtime port. */
export const EDGE_PATH_DECODINGS_MAX = 8;
export const EDGE_ANSWER_HEAD_MAX_BYTES = 64 * 1024;
/** How long a sandbox may take for what is left to send to it when a connection is closed. */
export const EDGE_CLOSE_MS = 5000;

/** So often it is looked which sandboxes no connection leads to any more. */
export const EDGE_ENDINGS_LOOK_EVERY_MS = 2_000;
/** A silent connection to a sandbox is asked so often whether it is still there. */
export const EDGE_KEEPALIVE_MS = 20_000;
/** Proxies before us that are looked at, from the nearest on. */
export const EDGE_FORWARDED_HOPS_MAX = 32;
/** The head of a client's request: its first line and its headers. */
export const EDGE_REQUEST_HEAD_MAX_BYTES = 16 * 1024;
export const EDGE_REQUEST_HEAD_MAX_LINES = 198;
/** What Bun's own server behind us takes: what the front adds has room. */
export const EDGE_INNER_HEAD_MAX_BYTES = 2 * EDGE_REQUEST_HEAD_MAX_BYTES;
/** From a head's first byte to its last; and for the handshake of TLS. */
export const EDGE_REQUEST_HEAD_MS = 12_000;
/** How long a client's connection may carry nothing between two requests. */
export const EDGE_IDLE_MS = 255_000;
/** So often connections are looked at for both. */
export const EDGE_IDLE_LOOK_EVERY_MS = 2_000;
/** Of what comes behind a request that is still being answered; above it, the client is held back. */
export const EDGE_EARLY_MAX_BYTES = 64 * 1024;
/** Of a body that nobody wants, read on so that its client sees the answer; one that is longer ends its connection. */
export const EDGE_UNWANTED_BODY_MAX_BYTES = 1024 * 1024;
/** The same of a connection that ends: bytes are dropped unread, then left with the kernel until the client leaves. */
export const EDGE_UNWANTED_BYTES_MAX = 16 * 1024 * 1024;
/** Requests at once on one connection of HTTP/2. */
export const EDGE_HTTP2_STREAMS_MAX = 256;
/** Of one connection, in one turn: each takes some microseconds, whatever it carries. */
export const EDGE_HTTP2_FRAMES_AT_ONCE_MAX = 64;
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

/** Processes that carry, of which there are as many as processors. */
export const EDGE_PROCESSES_MAX = 8;
/** From its start until it listens and knows where all sandboxes are. */
export const EDGE_PROCESS_START_MS = scaled(60_000);
/** So often a process is asked whether it is of use; after so many questions without an answer it is ended. */
export const EDGE_PROCESS_PING_MS = scaled(5_000);
export const EDGE_PROCESS_PINGS_MISSED_MAX = 2;
/** One that cannot be started is tried again, after longer and longer pauses up to this. */
export const EDGE_PROCESS_RESTART_MAX_MS = 5_000;
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
