/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */
import { inBytes, type Limit } from "../contract/limit.ts";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES, EDGE_REQUEST_HEAD_MS } from "../edge/limits.ts";
import { scaled } from "../work/time-factor.ts";

/** Sandboxes of one template that are kept ready in any case, and of all templates as they are asked for. */
export const READY_MAX = 64;
export const READY_ALL_MAX = 1024;
/** How often it is looked how far a build is that a running server does, and how long that server may take to begin. */
export const BUILD_LOOK_MS = 250;
export const BUILD_TAKEN_UP_MS = scaled(60_000);
/** How long a connection to the management interface may be silent, or its body slow. Bun takes no more. */
export const IDLE_SECONDS = 255;
/** Requests and streams to all sandboxes at once; the most that Bun takes. */
export const REQUESTS_TO_SANDBOXES_MAX = 65_336;
/**
 * Accesses to files that the server has under way at once. Bun has as many threads for them as there are processors; on
 * two, a pause that makes its files durable would hold up whatever else looks at a file.
 */
export const FILE_ACCESSES_AT_ONCE_MAX = 32;
/** How often the server gives memory back that lies between what it uses. */
export const MEMORY_GIVEN_BACK_EVERY_MS = 5_000;
/** Of a domain; a host name has 253, and before it stand a port, a sandbox's id and what older clients add. */
export const DOMAIN_MAX_CHARS = 180;
/** How often it is looked whether the certificate has changed. */
export const CERTIFICATE_LOOK_EVERY_MS = 5_000;
/**
 * How long a listener whose certificate was replaced goes on at least, for connections that are being made, and how
 * often it is then looked whether it carries anything.
 */
export const LEAVING_LISTENER_MS = 30_000;
/** How often it is looked whether the certificate of `sandlot tls` comes to its end. */
export const RENEW_LOOK_EVERY_MS = 12 * 3_600_000;
/** Steps of what the server does, where the operator has them written to a file: how often, and how much at most. */
export const STEPS_FILE = { writeEveryMs: 100, maxBytes: 256 * 1024 ** 2 } as const;
/** How long, and how often, it is looked whether a port is free that processes of a killed server may still have. */
export const PORT_FREE_MS = scaled(1_000);
export const PORT_LOOK_MS = 20;

/** What clients can run into at the listeners. Streams to sandboxes may be silent for as long as they like. */
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
