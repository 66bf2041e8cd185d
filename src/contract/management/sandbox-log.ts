/** Logs of a sandbox on the management API. */
import { z } from "zod";
import { LOG_LEVELS } from "../sandbox-log.ts";
import { dateTime } from "./identifiers.ts";
import { LOG_QUERY_DEFAULT, LOG_SEARCH_MAX_CHARS } from "./limits.ts";

const sandboxLogEntry = z.object({
  timestamp: dateTime,
  level: z.enum(LOG_LEVELS),
  message: z.string(),
  fields: z.record(z.string(), z.string()).describe("Always includes logger"),
});

const sandboxLog = z.object({
  timestamp: dateTime,
  line: z.string().describe("A JSON object with level, message, logger and the other fields"),
});

export const sandboxLogsV1 = z.object({ logs: z.array(sandboxLog), logEntries: z.array(sandboxLogEntry) });
export const sandboxLogsV2 = z.object({ logs: z.array(sandboxLogEntry) });

const milliseconds = z.int().min(0);

export const sandboxLogsV1Query = z.object({
  start: milliseconds.optional().describe("Milliseconds since 1970; seven days ago when absent"),
  limit: z.int32().min(0).default(LOG_QUERY_DEFAULT),
});

export const sandboxLogsV2Query = z.object({
  cursor: milliseconds.optional().describe("Milliseconds since 1970, inclusive"),
  limit: z.int32().min(0).max(LOG_QUERY_DEFAULT).default(LOG_QUERY_DEFAULT),
  direction: z.enum(["forward", "backward"]).default("backward").describe("backward: newest first"),
  level: z.enum(LOG_LEVELS).optional().describe("Minimum level"),
  search: z.string().max(LOG_SEARCH_MAX_CHARS).optional().describe("Literal part of the message"),
});

export type SandboxLogEntry = z.infer<typeof sandboxLogEntry>;
