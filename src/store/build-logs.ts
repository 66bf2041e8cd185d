/** Logs of builds, entry by entry. The position of an entry in the log of its build, from 0, never changes. */
import { integer, type SqlPart, type Statement, sqlPart, text } from "./engine.ts";
import { INTEGER, json, orNull, type Stored, Table, TEXT } from "./table.ts";

/** Each entry takes six of the values that a statement may have. */
const BUILD_LOG_ENTRIES_PER_STATEMENT = 100;
/** Size of an entry in addition to its message, so that empty ones count too. */
const BUILD_LOG_ENTRY_EXTRA_BYTES = 64;

const LEVELS = ["debug", "info", "warn", "error"] as const;
type Level = (typeof LEVELS)[number];

const entryColumns = {
  /** Milliseconds since 1970. */
  at: INTEGER,
  level: {
    read: (stored: unknown): Level => LEVELS[integer(stored)] ?? "error",
    write: (level: Level) => LEVELS.indexOf(level),
  },
  message: json<string>(),
  step: orNull(TEXT),
};
const entries = new Table(entryColumns);
const placedEntries = new Table({ buildId: TEXT, position: INTEGER, ...entryColumns });
type BuildLogEntry = Stored<typeof entries>;

interface LogPage {
  /** Entries of at least this level to skip. */
  offset: number;
  limit: number;
  level?: Level | undefined;
}

interface LogWindow {
  /** A time: forward from it, or backward from it. */
  cursor: number;
  direction: "forward" | "backward";
  limit: number;
  level?: Level | undefined;
}

export function buildLogsIn(sql: Statement) {
  const { all, texts } = entries.over(sql);
  /** Removes this many entries, oldest first, and returns their number. An empty log has no bytes. */
  async function removeFrom(buildId: string, rows: number): Promise<number> {
    const { count } = await sql`DELETE FROM build_logs WHERE build_id = ${buildId} AND position <
      (SELECT MIN(position) FROM build_logs WHERE build_id = ${buildId}) + ${rows}`;
    if (count < rows) await sql`UPDATE builds SET log_bytes = 0 WHERE id = ${buildId}`;
    return Math.max(1, count);
  }

  return {
    /** Appends as many entries as fit within `bytesMax` and returns their number. Call it inside a transaction. */
    async append(buildId: string, offered: readonly BuildLogEntry[], bytesMax: number): Promise<number> {
      const { rows } = await sql`UPDATE builds SET log_bytes = log_bytes WHERE id = ${buildId}
        RETURNING log_count, log_bytes`;
      if (rows[0] === undefined) return 0;
      const first = integer(rows[0].log_count);
      let bytes = integer(rows[0].log_bytes);
      const taken: BuildLogEntry[] = [];
      for (const entry of offered) {
        const size = Buffer.byteLength(entry.message) + BUILD_LOG_ENTRY_EXTRA_BYTES;
        if (bytes + size > bytesMax) break;
        bytes += size;
        taken.push(entry);
      }
      for (let at = 0; at < taken.length; at += BUILD_LOG_ENTRIES_PER_STATEMENT) {
        const some = taken.slice(at, at + BUILD_LOG_ENTRIES_PER_STATEMENT);
        const values = some.map((entry, nth) => ({ ...entry, buildId, position: first + at + nth }));
        await sql`INSERT INTO build_logs ${placedEntries.values(...values)}`;
      }
      await sql`UPDATE builds SET log_count = ${first + taken.length}, log_bytes = ${bytes} WHERE id = ${buildId}`;
      return taken.length;
    },

    /** Entries in order. */
    async read(buildId: string, { offset, limit, level }: LogPage): Promise<BuildLogEntry[]> {
      // Without a level the position is the offset, so that no entry is read only to be skipped.
      const isUnfiltered = LEVELS.indexOf(level ?? "debug") === 0;
      const skipped = isUnfiltered ? sqlPart`position >= ${offset}` : atLeast(level);
      return all`SELECT * FROM build_logs WHERE build_id = ${buildId} AND ${skipped}
        ORDER BY position LIMIT ${limit} OFFSET ${isUnfiltered ? 0 : offset}`;
    },

    /**
     * Removes entries of a build that ended before this time; returns their number, 0 when none is left. Call it inside
     * a transaction.
     */
    async removeBefore(before: number, rows: number): Promise<number> {
      const { rows: found } = await sql`SELECT id FROM builds WHERE log_bytes > 0 AND finished_at < ${before}
        ORDER BY finished_at, id LIMIT 1`;
      return found[0] === undefined ? 0 : removeFrom(text(found[0].id), rows);
    },

    /** Teams whose build logs exceed this size. */
    teamsAbove: (bytes: number) => texts`SELECT templates.team_id
        FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE builds.log_bytes > 0 AND templates.team_id IS NOT NULL
        GROUP BY templates.team_id HAVING SUM(builds.log_bytes) > ${bytes} ORDER BY templates.team_id`,

    /** Removes entries of the team's build that ended first. Call it inside a transaction. */
    async removeOldestOfTeam(teamId: string, rows: number): Promise<number> {
      const { rows: found } = await sql`SELECT builds.id FROM builds JOIN templates ON templates.id = builds.template_id
        WHERE templates.team_id = ${teamId} AND builds.log_bytes > 0 AND builds.finished_at IS NOT NULL
        ORDER BY builds.finished_at, builds.id LIMIT 1`;
      return found[0] === undefined ? 0 : removeFrom(text(found[0].id), rows);
    },

    /** Forward oldest first, backward newest first. */
    async readByTime(buildId: string, { cursor, direction, limit, level }: LogWindow): Promise<BuildLogEntry[]> {
      const [from, order] =
        direction === "forward"
          ? [sqlPart`at >= ${cursor}`, sqlPart`position`]
          : [sqlPart`at <= ${cursor}`, sqlPart`position DESC`];
      return all`SELECT * FROM build_logs WHERE build_id = ${buildId} AND ${from} AND ${atLeast(level)}
        ORDER BY ${order} LIMIT ${limit}`;
    },
  };
}

function atLeast(level: Level | undefined): SqlPart {
  return sqlPart`level >= ${LEVELS.indexOf(level ?? "debug")}`;
}
