/**
 * Lines of the server's log in readable form. docs/monitoring.md describes the lines. Clients choose parts of some,
 * such as paths, and a file may come from another machine.
 */
import { printable } from "../../../base/printable.ts";

export const LEVELS = ["info", "warn", "error"] as const;
type Level = (typeof LEVELS)[number];

export interface LogFilter {
  /** The least level. */
  level: Level;
  /** Only lines about this request. */
  request: string | undefined;
}

/** Undefined: the filter leaves the line out. A line that is no entry of the log is shown as it is. */
export function formatted(line: string, { level: least, request: wanted }: LogFilter): string | undefined {
  const entry = entryOf(line);
  if (entry === undefined) return wanted === undefined && least === "info" ? printable(line) : undefined;
  const { time, level, event, ...details } = entry;
  const rank = LEVELS.indexOf(level as Level);
  if (rank < LEVELS.indexOf(least) || (wanted !== undefined && details.request !== wanted)) return undefined;
  const words = Object.entries(details).map(([name, value]) => `${printable(name)}=${valueText(value)}`);
  const at = String(time).replace("T", " ").replace("Z", "");
  return [...[at, String(level).toUpperCase().padEnd(5), String(event)].map(printable), ...words].join(" ");
}

function entryOf(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    return typeof entry.time === "string" && typeof entry.event === "string" ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** A value of several lines, such as an error with its causes, begins below, indented. */
function valueText(value: unknown): string {
  if (typeof value !== "string") return printable(JSON.stringify(value));
  if (value.includes("\n"))
    return value
      .split("\n")
      .map((line) => `\n    ${printable(line)}`)
      .join("");
  return /^[\w./:+-]+$/.test(value) ? value : JSON.stringify(printable(value));
}
