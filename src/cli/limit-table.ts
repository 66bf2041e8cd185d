/** `sandlot limits --all`: every user-visible limit, as a table. docs/limits.md holds the same. */
import type { Limit } from "../contract/limit.ts";
import { CONTROL_LIMITS } from "../control/published-limits.ts";
import { EDGE_LIMITS } from "../edge/limits.ts";
import { GUEST_LIMITS } from "../guest/published-limits.ts";
import { HOST_LIMITS } from "../host/published-limits.ts";
import { CLI_LIMITS } from "./limits.ts";

/** In the order of the table. */
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

export const LIMITS: readonly Limit[] = [
  ...CONTROL_LIMITS,
  ...HOST_LIMITS,
  ...GUEST_LIMITS,
  ...EDGE_LIMITS,
  ...CLI_LIMITS,
].toSorted((a, b) => SCOPES.indexOf(a.scope) - SCOPES.indexOf(b.scope));

const HEAD = ["Of a", "Limit", "Default", "Beyond it", "Setting"];

/** As Markdown. */
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
