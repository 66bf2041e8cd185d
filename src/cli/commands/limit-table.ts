/** `sandlot limits --all`: every user-visible limit, as a table. docs/limits.md holds the same. */
import { inBytes, type Limit, limitRows } from "../../contract/limit.ts";
import { CONTROL_LIMITS } from "../../control/published-limits.ts";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES, EDGE_REQUEST_HEAD_MS } from "../../edge/limits.ts";
import { EDGE_LIMITS } from "../../edge/published-limits.ts";
import { GUEST_LIMITS } from "../../guest/published-limits.ts";
import { HOST_LIMITS } from "../../host/published-limits.ts";
import { IDLE_SECONDS } from "../server/listeners.ts";

/** Scopes in the order of the table. */
const SCOPES = [
  "sandbox",
  "process",
  "connection",
  "team",
  "user",
  "address",
  "request",
  "build",
  "volume",
  "server",
] as const satisfies readonly Limit["scope"][];

/** Limits of the listeners that clients can reach. Streams to sandboxes may be idle for longer. */
const CLI_LIMITS: readonly Limit[] = limitRows([
  ["request", "request head, including the URL", inBytes(EDGE_REQUEST_HEAD_MAX_BYTES), "431"],
  ["request", "request headers", EDGE_REQUEST_HEAD_MAX_LINES, "431"],
  [
    "connection",
    "time to receive a request head",
    `${EDGE_REQUEST_HEAD_MS / 1000} seconds`,
    "the connection is closed, even if bytes still arrive",
  ],
  [
    "connection",
    "idle time of a management connection",
    `${IDLE_SECONDS} seconds`,
    "the connection is closed; a very slow body or reader counts as idle",
  ],
]);

export const LIMITS: readonly Limit[] = [
  ...CONTROL_LIMITS,
  ...HOST_LIMITS,
  ...GUEST_LIMITS,
  ...EDGE_LIMITS,
  ...CLI_LIMITS,
].toSorted((a, b) => SCOPES.indexOf(a.scope) - SCOPES.indexOf(b.scope));

const HEAD = ["Of a", "Limit", "Default", "Beyond it", "Setting"];

/** All limits as a Markdown table. */
export function limitTable(): string {
  const rows = LIMITS.map(({ scope, name, value, error, setting }) => [
    scope,
    name,
    value,
    error,
    setting?.replace(/\bSANDLOT_\w+/g, "`$&`") ?? "",
  ]);
  const widths = HEAD.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(HEAD), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
