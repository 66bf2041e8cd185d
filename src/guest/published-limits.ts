/** Limits of the guest that clients of the runtime and programs in a sandbox can run into. */
import { inBytes, type Limit } from "../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../contract/runtime/limits.ts";
import { LIST_ENTRIES_MAX } from "./file-tree/tree.ts";
import { COMPOSE_BODY_MAX_BYTES, COMPOSE_SOURCES_MAX } from "./files/compose-request.ts";
import { FILE_METADATA_KEY_MAX_BYTES, FILE_METADATA_MAX_BYTES } from "./files/file-metadata.ts";
import { MULTIPART_HEADER_MAX_BYTES, MULTIPART_PARTS_MAX } from "./files/multipart.ts";
import { WATCHER_BUFFER_MAX_BYTES } from "./filesystem/watching/event-buffer.ts";
import { POLLING_WATCHERS_MAX, WATCHERS_MAX } from "./filesystem/watching/watchers.ts";
import { PATH_MAX_BYTES } from "./limits.ts";
import { INPUT_WAITING_MAX_BYTES } from "./process/guest-process.ts";
import { SANDBOX_PIDS_FOR_ROOT } from "./process/precedence.ts";
import {
  SUBSCRIBER_BUFFER_MAX_BYTES,
  SUBSCRIBER_STALLED_MS,
  SUBSCRIBERS_PER_PROCESS_MAX,
} from "./process/subscription.ts";
import { GUEST_RPC_MESSAGE_MAX_BYTES } from "./rpc/rpc.ts";
import { GUEST_JSON_STRUCTURE_MAX_BYTES } from "./rpc/strict-messages.ts";
import { FORWARD_CONNECTIONS_MAX, FORWARDERS_MAX } from "./system/forwarder.ts";

export const GUEST_LIMITS: readonly Limit[] = [
  {
    name: "processes of ordinary users",
    scope: "sandbox",
    value: String(SANDBOX_PIDS_MAX - SANDBOX_PIDS_FOR_ROOT),
    error: "`fork` fails with `EAGAIN`; an SDK start gets 429 `resource_exhausted`",
  },
  {
    name: "listeners of one process",
    scope: "process",
    value: String(SUBSCRIBERS_PER_PROCESS_MAX),
    error: "429 `resource_exhausted`",
  },
  {
    name: "output not yet read by a client",
    scope: "connection",
    value: inBytes(SUBSCRIBER_BUFFER_MAX_BYTES),
    error: "the process blocks in its next write; no output is lost",
  },
  {
    name: "time without reading output",
    scope: "connection",
    value: `${SUBSCRIBER_STALLED_MS / 1000} seconds`,
    error: "the stream ends with `resource_exhausted`; the process continues",
  },
  {
    name: "input not yet read by a process",
    scope: "process",
    value: inBytes(INPUT_WAITING_MAX_BYTES),
    error: "429 `resource_exhausted`",
  },
  { name: "directory watches", scope: "sandbox", value: String(WATCHERS_MAX), error: "429 `resource_exhausted`" },
  {
    name: "polled watches",
    scope: "sandbox",
    value: String(POLLING_WATCHERS_MAX),
    error: "429 `resource_exhausted`",
  },
  {
    name: "watch events not yet read by a client",
    scope: "connection",
    value: inBytes(WATCHER_BUFFER_MAX_BYTES),
    error: "the watch ends with `resource_exhausted`, or 500 `internal` if polled",
  },
  {
    name: "RPC message",
    scope: "request",
    value: inBytes(GUEST_RPC_MESSAGE_MAX_BYTES),
    error: "429 `resource_exhausted`",
  },
  {
    name: "JSON structure of an RPC, without strings",
    scope: "request",
    value: inBytes(GUEST_JSON_STRUCTURE_MAX_BYTES),
    error: "429 `resource_exhausted`",
  },
  { name: "entries of a list", scope: "request", value: String(LIST_ENTRIES_MAX), error: "429 `resource_exhausted`" },
  {
    name: "length of a path",
    scope: "request",
    value: `${PATH_MAX_BYTES} bytes`,
    error: "400, or 404 for a lookup",
  },
  { name: "files of one upload", scope: "request", value: String(MULTIPART_PARTS_MAX), error: "400" },
  {
    name: "header of a part of an upload",
    scope: "request",
    value: inBytes(MULTIPART_HEADER_MAX_BYTES),
    error: "400",
  },
  {
    name: "key of a file's metadata",
    scope: "request",
    value: `${FILE_METADATA_KEY_MAX_BYTES} bytes`,
    error: "400",
  },
  { name: "metadata of a file", scope: "request", value: inBytes(FILE_METADATA_MAX_BYTES), error: "400" },
  { name: "parts of a composed file", scope: "request", value: String(COMPOSE_SOURCES_MAX), error: "400" },
  { name: "body of a compose request", scope: "request", value: inBytes(COMPOSE_BODY_MAX_BYTES), error: "413" },
  {
    name: "loopback services reached through sandbox URLs",
    scope: "sandbox",
    value: String(FORWARDERS_MAX),
    error: "502; the port counts as closed",
  },
  {
    name: "connections to one loopback service",
    scope: "sandbox",
    value: String(FORWARD_CONNECTIONS_MAX),
    error: "the connection is closed",
  },
];
