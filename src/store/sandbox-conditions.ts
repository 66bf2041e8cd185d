/**
 * The meaning of a row at a given time, as SQL. control/lifecycle/sandbox-status.ts says the same in code, and its test
 * compares both. Rows that are being ended satisfy none of these.
 */
import { type SqlPart, sqlPart } from "./engine.ts";

/** Clients see it as running. */
export function shownRunning(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND state IN ('running', 'snapshotting') AND end_at > ${now})`;
}

/** Clients see it as paused; from its end on, this includes sandboxes that are due for an automatic pause. */
export function shownPaused(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'paused', 'resuming')
    OR (state IN ('running', 'snapshotting') AND auto_pause = 1 AND end_at <= ${now})))`;
}

/** It runs, or is in transition to or from running. */
export function underWay(now: number): SqlPart {
  return sqlPart`(kill_wanted = 0 AND (state IN ('pausing', 'resuming', 'snapshotting')
    OR (state = 'running' AND (auto_pause = 1 OR end_at > ${now}))))`;
}
