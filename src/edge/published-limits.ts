/** Limits of the edge that clients of sandbox URLs, and the services behind them, can reach. */
import { inBytes, type Limit, limitRows } from "../contract/limit.ts";
import { EDGE_CONNECTIONS_DEFAULT } from "./edge.ts";
import { EDGE_HTTP2_UNREAD_MAX_BYTES, EDGE_HTTP2_UNREAD_MS } from "./front/http2-connection.ts";
import { EDGE_RESPONSE_WAITING_MAX_BYTES } from "./limits.ts";
import { EDGE_RESPONSE_HEAD_MAX_BYTES } from "./proxy/response-head.ts";

export const EDGE_LIMITS: readonly Limit[] = limitRows([
  [
    "sandbox",
    "concurrent requests, streams and WebSockets to a sandbox",
    `${EDGE_CONNECTIONS_DEFAULT.perSandbox} at once`,
    "429 without `Retry-After`",
    "SANDLOT_CONNECTIONS_PER_SANDBOX",
  ],
  [
    "team",
    "concurrent requests, streams and WebSockets of a team",
    `${EDGE_CONNECTIONS_DEFAULT.perTeam} at once`,
    "429 without `Retry-After`",
    "SANDLOT_CONNECTIONS_PER_TEAM",
  ],
  [
    "connection",
    "response bytes not yet read by a client",
    inBytes(EDGE_RESPONSE_WAITING_MAX_BYTES),
    "the service blocks; no data is lost",
  ],
  [
    "connection",
    "HTTP/2 request bodies not yet read by services",
    inBytes(EDGE_HTTP2_UNREAD_MAX_BYTES),
    `the client waits; after ${EDGE_HTTP2_UNREAD_MS / 1000} s without progress the largest are reset`,
  ],
  ["request", "response head of a service", inBytes(EDGE_RESPONSE_HEAD_MAX_BYTES), "502; the port counts as closed"],
]);
