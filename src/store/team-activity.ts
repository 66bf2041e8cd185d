/**
 * Numbers of running and started sandboxes per team: one row for each time step in which they changed. Rows get coarser
 * with age.
 */
import type { Statement } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";

const activity = new Table({
  teamId: TEXT,
  /** Start of the step. */
  at: INTEGER,
  stepMs: INTEGER,
  /** Running sandboxes at its start, at its end, and at most. */
  opening: INTEGER,
  closing: INTEGER,
  peak: INTEGER,
  starts: INTEGER,
  /** Most starts in one of the shortest steps that it was merged from. */
  busiest: INTEGER,
});
export type TeamActivity = Stored<typeof activity>;

export function teamActivityIn(sql: Statement) {
  const { first, all, execute, count } = activity.over(sql);
  return {
    /** Adds a row of the shortest step, or merges into the existing one. */
    add: (step: Omit<TeamActivity, "busiest">) => execute`
        INSERT INTO team_activity ${activity.values({ ...step, busiest: step.starts })}
        ON CONFLICT (team_id, at) DO UPDATE SET
          closing = excluded.closing,
          peak = CASE WHEN excluded.peak > team_activity.peak THEN excluded.peak ELSE team_activity.peak END,
          starts = team_activity.starts + excluded.starts,
          busiest = CASE WHEN team_activity.step_ms > excluded.step_ms THEN team_activity.busiest
            ELSE team_activity.starts + excluded.starts END`,

    /** Adds a row for every team with the count of its sandbox rows. */
    addCounted: (at: number, stepMs: number) => execute`INSERT INTO team_activity (${activity.names})
        SELECT teams.id, CAST(${at} AS BIGINT), CAST(${stepMs} AS INTEGER), COUNT(sandboxes.id), COUNT(sandboxes.id),
          COUNT(sandboxes.id), 0, 0
        FROM teams LEFT JOIN sandboxes ON sandboxes.team_id = teams.id AND sandboxes.state NOT IN ('paused', 'killing')
        WHERE 1 = 1 GROUP BY teams.id
        ON CONFLICT (team_id, at) DO UPDATE SET
          closing = excluded.closing,
          peak = CASE WHEN excluded.peak > team_activity.peak THEN excluded.peak ELSE team_activity.peak END`,

    /** Adds or replaces the row. */
    put: (row: TeamActivity) => execute`INSERT INTO team_activity ${activity.values(row)}
        ON CONFLICT (team_id, at) DO UPDATE SET step_ms = excluded.step_ms, opening = excluded.opening,
          closing = excluded.closing, peak = excluded.peak, starts = excluded.starts, busiest = excluded.busiest`,

    remove: ({ teamId, at }: Pick<TeamActivity, "teamId" | "at">) => execute`DELETE FROM team_activity
        WHERE team_id = ${teamId} AND at = ${at}`,
    at: (teamId: string, at: number) => first`SELECT * FROM team_activity WHERE team_id = ${teamId} AND at = ${at}`,

    /** Rows from `from` to `to`, both inclusive, and the last one before them, in order. */
    around: (teamId: string, from: number, to: number) => all`SELECT * FROM team_activity
        WHERE team_id = ${teamId} AND at <= ${to} AND at >=
          (SELECT COALESCE(MAX(at), ${from}) FROM team_activity WHERE team_id = ${teamId} AND at <= ${from})
        ORDER BY at`,

    /** Rows before `time` with shorter steps, oldest first. */
    denserThan: (stepMs: number, time: number, limit: number) => all`SELECT * FROM team_activity
        WHERE step_ms < ${stepMs} AND at < ${time} ORDER BY at, team_id LIMIT ${limit}`,

    /** Keeps the last row before `time`, which gives the count from then on. */
    removeBefore: (time: number, limit: number) => count`DELETE FROM team_activity WHERE (team_id, at) IN
        (SELECT team_id, at FROM team_activity AS old WHERE at < ${time} AND EXISTS
          (SELECT 1 FROM team_activity AS later
            WHERE later.team_id = old.team_id AND later.at > old.at AND later.at < ${time})
          ORDER BY at LIMIT ${limit})`,
  };
}
