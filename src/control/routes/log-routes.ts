/**
 * The routes of logs. They do not check that the sandbox exists: its log outlives it, and another team's log is empty.
 */
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import {
  type SandboxLogEntry,
  sandboxLogsV1,
  sandboxLogsV1Query,
  sandboxLogsV2,
  sandboxLogsV2Query,
} from "../../contract/management/sandbox-log.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { LOG_LINES_PER_SANDBOX_MAX } from "../limits.ts";
import { sandboxIdFrom } from "./sandbox-path.ts";
import { type Route, route } from "./services.ts";

export const logRoutes: readonly Route[] = [
  route("GET /sandboxes/{sandboxID}/logs", {
    auth: "key",
    summary: "Get the log of a sandbox, oldest first",
    deprecated: true,
    query: sandboxLogsV1Query,
    success: [{ status: 200, description: "Log lines", schema: sandboxLogsV1 }],
    async handle({ caller, params, query }, { activity, clock }) {
      const lines = await activity.logs.read({
        teamId: caller.team.id,
        sandboxId: sandboxIdFrom(params.sandboxID),
        from: Math.max(query.start ?? 0, clock.now() - ACTIVITY_KEPT_MS),
        to: Number.MAX_SAFE_INTEGER,
        newestFirst: false,
        limit: Math.min(query.limit, LOG_LINES_PER_SANDBOX_MAX),
      });
      return { body: { logs: lines.map(asLog), logEntries: lines.map(asEntry) } };
    },
  }),
  route("GET /v2/sandboxes/{sandboxID}/logs", {
    auth: "key",
    summary: "Get the log of a sandbox from a given time, in either direction",
    query: sandboxLogsV2Query,
    success: [{ status: 200, description: "Log lines", schema: sandboxLogsV2 }],
    async handle({ caller, params, query }, { activity, clock }) {
      const oldest = clock.now() - ACTIVITY_KEPT_MS;
      const isForward = query.direction === "forward";
      // Up to the newest line, which may be slightly ahead of the clock.
      const cursor = query.cursor ?? (isForward ? oldest : Number.MAX_SAFE_INTEGER);
      const lines = await activity.logs.read({
        teamId: caller.team.id,
        sandboxId: sandboxIdFrom(params.sandboxID),
        from: Math.max(oldest, isForward ? cursor : query.cursor === undefined ? 0 : cursor - ACTIVITY_KEPT_MS),
        to: isForward ? cursor + ACTIVITY_KEPT_MS : cursor,
        newestFirst: !isForward,
        limit: query.limit,
        level: query.level,
        search: query.search,
      });
      return { body: { logs: lines.map(asEntry) } };
    },
  }),
];

function asEntry({ at, level, message, fields }: LogLine): SandboxLogEntry {
  return { timestamp: new Date(at).toISOString(), level, message, fields };
}

/** Clients parse the line and look for its level. */
function asLog({ at, level, message, fields }: LogLine): { timestamp: string; line: string } {
  return { timestamp: new Date(at).toISOString(), line: JSON.stringify({ ...fields, level, message }) };
}
