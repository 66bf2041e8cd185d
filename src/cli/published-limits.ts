/** What clients can run into at the listeners. Streams to sandboxes may be silent for as long as they like. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { HEAD_MAX_BYTES, HEAD_SECONDS, HEADERS_MAX, IDLE_SECONDS } from "./limits.ts";

export const CLI_LIMITS: readonly Limit[] = [
  {
    name: "head of a request, its URL included",
    scope: "request",
    value: `${inBytes(HEAD_MAX_BYTES)} over HTTP/1.1`,
    error: "431 without a body",
  },
  {
    name: "headers of a request",
    scope: "request",
    value: `${HEADERS_MAX} over HTTP/1.1`,
    error: "431 without a body",
  },
  {
    name: "time until the head of a request is there",
    scope: "connection",
    value: `${HEAD_SECONDS} seconds`,
    error: "closed, however the bytes trickle",
  },
  {
    name: "silence between client and management interface",
    scope: "connection",
    value: `${IDLE_SECONDS} seconds`,
    error: "closed; a body that trickles, and an answer that nobody takes, count as silence",
  },
];
