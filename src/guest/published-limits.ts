/** Limits of the guest that clients of the runtime and programs in a sandbox can run into. */
import { inBytes, type Limit, limitRows } from "../contract/limit.ts";
import { SANDBOX_PIDS_MAX } from "../contract/runtime/limits.ts";
import { LIST_ENTRIES_MAX } from "./file-tree/tree.ts";
import { COMPOSE_BODY_MAX_BYTES, COMPOSE_SOURCES_MAX } from "./files/compose-request.ts";
import { FILE_METADATA_KEY_MAX_BYTES, FILE_METADATA_MAX_BYTES } from "./files/file-metadata.ts";
import { MULTIPART_HEADER_MAX_BYTES, MULTIPART_PARTS_MAX } from "./files/multipart.ts";
import { WATCHER_BUFFER_MAX_BYTES } from "./filesystem/watching/event-buffer.ts";
import { POLLING_WATCHERS_MAX, WATCHERS_MAX } from "./filesystem/watching/watchers.ts";
import { PATH_MAX_BYTES } from "./limits.ts";
import { INPUT_WAITING_MAX_BYTES } from "./process/guest-process.ts";
import { SANDBOX_PIDS_FOR_ROOT } from "./process/priority.ts";
import {
  SUBSCRIBER_BUFFER_MAX_BYTES,
  SUBSCRIBER_STALLED_MS,
  SUBSCRIBERS_PER_PROCESS_MAX,
} from "./process/subscription.ts";
import { GUEST_RPC_MESSAGE_MAX_BYTES } from "./rpc/rpc.ts";
import { GUEST_JSON_STRUCTURE_MAX_BYTES } from "./rpc/strict-messages.ts";
import { FORWARD_CONNECTIONS_MAX, FORWARDERS_MAX } from "./system/forwarder.ts";

const EXHAUSTED = "429 `resource_exhausted`";

export const GUEST_LIMITS: readonly Limit[] = limitRows([
  [
    "sandbox",
    "processes of ordinary users",
    SANDBOX_PIDS_MAX - SANDBOX_PIDS_FOR_ROOT,
    "`fork` fails with `EAGAIN`; an SDK start gets 429 `resource_exhausted`",
  ],
  ["process", "listeners of one process", SUBSCRIBERS_PER_PROCESS_MAX, EXHAUSTED],
  [
    "connection",
    "output not yet read by a client",
    inBytes(SUBSCRIBER_BUFFER_MAX_BYTES),
    "the process blocks in its next write; no output is lost",
  ],
  [
    "connection",
    "time without reading output",
    `${SUBSCRIBER_STALLED_MS / 1000} seconds`,
    "the stream ends with `resource_exhausted`; the process continues",
  ],
  ["process", "input not yet read by a process", inBytes(INPUT_WAITING_MAX_BYTES), EXHAUSTED],
  ["sandbox", "directory watches", WATCHERS_MAX, EXHAUSTED],
  ["sandbox", "polled watches", POLLING_WATCHERS_MAX, EXHAUSTED],
  [
    "connection",
    "watch events not yet read by a client",
    inBytes(WATCHER_BUFFER_MAX_BYTES),
    "the watch ends with `resource_exhausted`, or 500 `internal` if polled",
  ],
  ["request", "RPC message", inBytes(GUEST_RPC_MESSAGE_MAX_BYTES), EXHAUSTED],
  ["request", "JSON structure of an RPC, without strings", inBytes(GUEST_JSON_STRUCTURE_MAX_BYTES), EXHAUSTED],
  ["request", "entries of a list", LIST_ENTRIES_MAX, EXHAUSTED],
  ["request", "length of a path", `${PATH_MAX_BYTES} bytes`, "400, or 404 for a lookup"],
  ["request", "files of one upload", MULTIPART_PARTS_MAX, "400"],
  ["request", "header of a part of an upload", inBytes(MULTIPART_HEADER_MAX_BYTES), "400"],
  ["request", "key of a file's metadata", `${FILE_METADATA_KEY_MAX_BYTES} bytes`, "400"],
  ["request", "metadata of a file", inBytes(FILE_METADATA_MAX_BYTES), "400"],
  ["request", "parts of a composed file", COMPOSE_SOURCES_MAX, "400"],
  ["request", "body of a compose request", inBytes(COMPOSE_BODY_MAX_BYTES), "413"],
  ["sandbox", "loopback services reached through sandbox URLs", FORWARDERS_MAX, "502; the port counts as closed"],
  ["sandbox", "connections to one loopback service", FORWARD_CONNECTIONS_MAX, "the connection is closed"],
]);
