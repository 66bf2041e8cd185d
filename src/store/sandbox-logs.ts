/** Logs of sandboxes, in pages: one row holds the lines of a short time. They outlive their sandbox. */
import type { LogLine } from "../contract/sandbox-log.ts";
import { integer, integerOrNull, resultsOf, type Statement, sqlPart, text } from "./engine.ts";

export interface LogPage {
  sandboxId: string;
  teamId: string;
  /** Sorted by time; never empty. The first is later than the last of the previous page. */
  lines: readonly LogLine[];
  bytes: number;
  /** Position up to which the guest's journal was read; empty when no line came from it. */
  position: string;
}

interface LogExtent {
  lines: number;
  bytes: number;
  /** 0 without lines. */
  lastAt: number;
}

export function sandboxLogsIn(sql: Statement) {
  const { count, texts } = resultsOf(sql);
  return {
    async add({ sandboxId, teamId, lines, bytes, position }: LogPage): Promise<void> {
      const firstAt = lines[0]?.at ?? 0;
      const lastAt = lines.at(-1)?.at ?? firstAt;
      await sql`INSERT INTO log_pages (sandbox_id, first_at, last_at, team_id, line_count, byte_count, position, lines)
        VALUES (${sandboxId}, ${firstAt}, ${lastAt}, ${teamId}, ${lines.length}, ${bytes}, ${position},
          ${JSON.stringify(lines)})`;
    },

    async extentOf(sandboxId: string): Promise<LogExtent> {
      const { rows } = await sql`SELECT SUM(line_count) AS line_count, SUM(byte_count) AS byte_count,
          MAX(last_at) AS last_at FROM log_pages WHERE sandbox_id = ${sandboxId}`;
      const whole = (value: unknown) => integerOrNull(value ?? null) ?? 0;
      return { lines: whole(rows[0]?.line_count), bytes: whole(rows[0]?.byte_count), lastAt: whole(rows[0]?.last_at) };
    },

    async positionOf(sandboxId: string): Promise<string | undefined> {
      const { rows } = await sql`SELECT position FROM log_pages
        WHERE sandbox_id = ${sandboxId} AND position <> '' ORDER BY first_at DESC LIMIT 1`;
      return rows[0] && text(rows[0].position);
    },

    /** Pages with lines from `from` to `to`, both inclusive, earliest first or latest first. */
    async between(
      teamId: string,
      sandboxId: string,
      { from, to, newestFirst, limit }: { from: number; to: number; newestFirst: boolean; limit: number },
    ): Promise<LogLine[][]> {
      const order = newestFirst ? sqlPart`first_at DESC` : sqlPart`first_at ASC`;
      const { rows } = await sql`SELECT lines FROM log_pages
        WHERE sandbox_id = ${sandboxId} AND team_id = ${teamId} AND last_at >= ${from} AND first_at <= ${to}
        ORDER BY ${order} LIMIT ${limit}`;
      return rows.map((row) => JSON.parse(text(row.lines)));
    },

    /** Removes the oldest page of a sandbox and returns its size. */
    async removeOldest(sandboxId: string): Promise<{ lines: number; bytes: number } | undefined> {
      const { rows } = await sql`DELETE FROM log_pages WHERE sandbox_id = ${sandboxId}
        AND first_at = (SELECT MIN(first_at) FROM log_pages WHERE sandbox_id = ${sandboxId})
        RETURNING line_count, byte_count`;
      return rows[0] && { lines: integer(rows[0].line_count), bytes: integer(rows[0].byte_count) };
    },

    /** Removes pages whose last line is before `time`, at most `limit`, and returns their number. */
    removeBefore: (time: number, limit: number) => count`DELETE FROM log_pages WHERE (sandbox_id, first_at) IN
        (SELECT sandbox_id, first_at FROM log_pages WHERE last_at < ${time} ORDER BY last_at LIMIT ${limit})`,

    /** Teams whose logs exceed this many bytes. */
    teamsAbove: (bytes: number) => texts`SELECT team_id FROM log_pages
        GROUP BY team_id HAVING SUM(byte_count) > ${bytes}`,

    removeOldestOfTeam: (teamId: string, limit: number) => count`DELETE FROM log_pages WHERE (sandbox_id, first_at) IN
        (SELECT sandbox_id, first_at FROM log_pages WHERE team_id = ${teamId} ORDER BY last_at LIMIT ${limit})`,
  };
}
