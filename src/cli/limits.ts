/** Limits that several files of this module share. Units come last in a name. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES, EDGE_REQUEST_HEAD_MS } from "../edge/limits.ts";

/** Ready pool: maximum of the minimum per template, and of all templates together. */
export const READY_MAX = 64;
export const READY_ALL_MAX = 1024;
/** How long a management connection may be idle, or its body slow. Bun's maximum. */
export const IDLE_SECONDS = 255;
/** Concurrent requests and streams to all sandboxes. Bun's maximum. */
export const REQUESTS_TO_SANDBOXES_MAX = 65_336;
/** Limits of the listeners that clients can reach. Streams to sandboxes may be idle for longer. */
export const CLI_LIMITS: readonly Limit[] = [
  {
    name: "request head, including the URL",
    scope: "request",
    value: inBytes(EDGE_REQUEST_HEAD_MAX_BYTES),
    error: "431",
  },
  {
    name: "request headers",
    scope: "request",
    value: `${EDGE_REQUEST_HEAD_MAX_LINES}`,
    error: "431",
  },
  {
    name: "time to receive a request head",
    scope: "connection",
    value: `${EDGE_REQUEST_HEAD_MS / 1000} seconds`,
    error: "the connection is closed, even if bytes still arrive",
  },
  {
    name: "idle time of a management connection",
    scope: "connection",
    value: `${IDLE_SECONDS} seconds`,
    error: "the connection is closed; a very slow body or reader counts as idle",
  },
];
