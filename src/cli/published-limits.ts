/** What clients can run into at the listeners. Streams to sandboxes may be silent for as long as they like. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES, EDGE_REQUEST_HEAD_MS } from "../edge/limits.ts";
import { IDLE_SECONDS } from "./limits.ts";

export const CLI_LIMITS: readonly Limit[] = [
  {
    name: "head of a request, its URL included",
    scope: "request",
    value: inBytes(EDGE_REQUEST_HEAD_MAX_BYTES),
    error: "431",
  },
  {
    name: "headers of a request",
    scope: "request",
    value: `${EDGE_REQUEST_HEAD_MAX_LINES}`,
    error: "431",
  },
  {
    name: "time until the head of a request is there",
    scope: "connection",
    value: `${EDGE_REQUEST_HEAD_MS / 1000} seconds`,
    error: "closed, however the bytes trickle",
  },
  {
    name: "silence between client and management interface",
    scope: "connection",
    value: `${IDLE_SECONDS} seconds`,
    error: "closed; a body that trickles, and an answer that nobody takes, count as silence",
  },
];
