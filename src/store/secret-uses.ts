/** The use of secrets, counted per version, sandbox and host. It outlives the sandboxes, but not the secret. */
import { type SqlPart, type Statement, sqlPart } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";

const uses = new Table({
  secretId: TEXT,
  version: INTEGER,
  sandboxId: TEXT,
  host: TEXT,
  /** Requests. */
  count: INTEGER,
  firstAt: INTEGER,
  lastAt: INTEGER,
});
export type SecretUse = Stored<typeof uses>;

export function secretUsesIn(sql: Statement) {
  const { all, execute, texts } = uses.over(sql);
  return {
    /** Adds to the count of the same use. A secret that is gone has no record. */
    add: (use: SecretUse) => execute`INSERT INTO secret_uses
        (secret_id, version, sandbox_id, host, count, first_at, last_at)
        SELECT id, ${castInteger(use.version)}, ${castText(use.sandboxId)}, ${castText(use.host)},
          ${castInteger(use.count)}, ${castInteger(use.firstAt)}, ${castInteger(use.lastAt)}
        FROM secrets WHERE id = ${use.secretId}
        ON CONFLICT (secret_id, version, sandbox_id, host) DO UPDATE SET
          count = secret_uses.count + excluded.count, last_at = excluded.last_at`,
    /** Last use first. */
    of: (id: string, skipped: number, limit: number) => all`SELECT * FROM secret_uses WHERE secret_id = ${id}
        ORDER BY last_at DESC, version DESC, sandbox_id, host LIMIT ${limit} OFFSET ${skipped}`,
    /** Hosts for which a sandbox has used the secret, at most `limit`. */
    hostsOf: (id: string, sandboxId: string, limit: number) => texts`SELECT DISTINCT host FROM secret_uses
        WHERE secret_id = ${id} AND sandbox_id = ${sandboxId} LIMIT ${limit}`,
    /** Keeps the last uses. */
    removeBeyond: (id: string, kept: number) => execute`DELETE FROM secret_uses
        WHERE (secret_id, version, sandbox_id, host) IN
          (SELECT secret_id, version, sandbox_id, host FROM secret_uses WHERE secret_id = ${id}
            ORDER BY last_at DESC, version DESC, sandbox_id, host LIMIT 1000000 OFFSET ${kept})`,
  };
}

/** Postgres cannot tell the types of plain values in a SELECT. */
function castInteger(value: number): SqlPart {
  return sqlPart`CAST(${value} AS BIGINT)`;
}

function castText(value: string): SqlPart {
  return sqlPart`CAST(${value} AS TEXT)`;
}
