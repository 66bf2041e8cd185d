/**
 * What a row means at a moment, for SQL. control/lifecycle/sandbox-status.ts says the same of a row in hand, and its
 * test holds both together. Rows that are being ended satisfy none of these.
 */
import { type SqlPart, sqlPart } from "./engine.ts";

/** Clients are shown that it runs. */
export function shownRunning(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND state IN ('running', 'snapshotting') AND end_at > ${now})`;
}

/** Clients are shown that it is paused; from its end on that goes for what is to be paused, too. */
export function shownPaused(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'paused', 'resuming')
    OR (state IN ('running', 'snapshotting') AND auto_pause = 1 AND end_at <= ${now})))`;
}

/** It runs, or is on its way to or from that. */
export function underWay(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'resuming', 'snapshotting')
    OR (state = 'running' AND (auto_pause = 1 OR end_at > ${now}))))`;
}
