/** The audit log: one row for each change, only ever added or removed by age and number. Rows outlive their teams. */
import { resultsOf, type SqlPart, type Statement, sqlPart } from "./engine.ts";
import { INTEGER, orNull, type Stored, Table, TEXT, word } from "./table.ts";

const entries = new Table({
  id: TEXT,
  at: INTEGER,
  /** The entries of a team, or of none, that are bounded in number together. */
  subject: TEXT,
  teamId: orNull(TEXT),
  /** The kind of the actor. */
  actor: word<"key" | "user" | "admin" | "root" | "server" | "stranger">(),
  /** Id of the key, user or admin token. */
  actorId: orNull(TEXT),
  /** `METHOD /path` of the endpoint, or the command. */
  action: TEXT,
  object: orNull(TEXT),
  /** Address of the client. */
  address: orNull(TEXT),
  status: INTEGER,
  requestId: orNull(TEXT),
});
export type AuditEntry = Stored<typeof entries>;

interface AuditFilter {
  teamId?: string | undefined;
  actorId?: string | undefined;
  action?: string | undefined;
  object?: string | undefined;
  /** Times, both included. */
  from?: number | undefined;
  to?: number | undefined;
}

export function auditLogIn(sql: Statement) {
  const { all } = entries.over(sql);
  const { execute, count } = resultsOf(sql);
  return {
    /** Nothing if it is there: the reply to an earlier attempt was lost. */
    add: (entry: AuditEntry) => execute`INSERT INTO audit_log ${entries.values(entry)} ON CONFLICT (id) DO NOTHING`,

    /** Newest first. */
    async list(filter: AuditFilter, after: Pick<AuditEntry, "at" | "id"> | undefined, limit: number) {
      const { teamId = "", actorId = "", action = "", object = "", from = 0, to = Number.MAX_SAFE_INTEGER } = filter;
      const last = after ?? { at: Number.MAX_SAFE_INTEGER, id: "" };
      return await all`SELECT * FROM audit_log WHERE at >= ${from} AND at <= ${to}
        AND (at < ${last.at} OR (at = ${last.at} AND id < ${last.id}))
        AND (${teamId} = '' OR team_id = ${teamId}) AND (${actorId} = '' OR actor_id = ${actorId})
        AND (${action} = '' OR action = ${action}) AND (${object} = '' OR object = ${object})
        ORDER BY at DESC, id DESC LIMIT ${limit}`;
    },

    /** At most `limit`, the oldest first. Returns how many. */
    removeBefore: (time: number, limit: number) => count`DELETE FROM audit_log WHERE id IN
        (SELECT id FROM audit_log WHERE at < ${time} ORDER BY at, id LIMIT ${limit})`,

    /** Keeps the newest `most` of this team and subject. */
    async removeBeyond({ teamId, subject }: Pick<AuditEntry, "teamId" | "subject">, most: number): Promise<void> {
      const these = sqlPart`${ofTeam(teamId)} AND subject = ${subject}`;
      await execute`DELETE FROM audit_log WHERE ${these} AND id IN
        (SELECT id FROM audit_log WHERE ${these} ORDER BY at DESC, id DESC LIMIT ${Number.MAX_SAFE_INTEGER} OFFSET ${most})`;
    },
  };
}

function ofTeam(teamId: string | null): SqlPart {
  return teamId === null ? sqlPart`team_id IS NULL` : sqlPart`team_id = ${teamId}`;
}
