/**
 * The keys by which clients repeat a create: each is the hash of a team's key, with the hash of its request and the
 * sandbox that it created. A key and its sandbox are written in one transaction, so neither exists without the other.
 */
import type { Statement } from "./engine.ts";
import { INTEGER, type Stored, Table, TEXT } from "./table.ts";

const keys = new Table({
  teamId: TEXT,
  keyHash: TEXT,
  requestHash: TEXT,
  /** It may have ended. */
  sandboxId: TEXT,
  createdAt: INTEGER,
});
export type IdempotencyKey = Stored<typeof keys>;

export function idempotencyKeysIn(sql: Statement) {
  const { first, execute, changed, count, number } = keys.over(sql);
  return {
    /** Replaces a key written at `expiredAt` or before. False: the team has used the key since. */
    add: (key: IdempotencyKey, expiredAt: number) => changed`INSERT INTO idempotency_keys ${keys.values(key)}
        ON CONFLICT (team_id, key_hash) DO UPDATE SET request_hash = excluded.request_hash,
          sandbox_id = excluded.sandbox_id, created_at = excluded.created_at
        WHERE idempotency_keys.created_at <= ${expiredAt}`,

    find: (teamId: string, keyHash: string, expiredAt: number) => first`SELECT * FROM idempotency_keys
        WHERE team_id = ${teamId} AND key_hash = ${keyHash} AND created_at > ${expiredAt}`,

    countOf: (teamId: string, expiredAt: number) => number`SELECT COUNT(*) AS keys FROM idempotency_keys
        WHERE team_id = ${teamId} AND created_at > ${expiredAt}`,

    /** Only while it names this sandbox. */
    free: ({ teamId, keyHash }: Pick<IdempotencyKey, "teamId" | "keyHash">, sandboxId: string) => execute`
        DELETE FROM idempotency_keys
        WHERE team_id = ${teamId} AND key_hash = ${keyHash} AND sandbox_id = ${sandboxId}`,

    /** Removes at most `limit` keys; returns their number. */
    removeBefore: (time: number, limit: number) => count`DELETE FROM idempotency_keys WHERE (team_id, key_hash) IN
        (SELECT team_id, key_hash FROM idempotency_keys WHERE created_at < ${time} ORDER BY created_at LIMIT ${limit})`,
  };
}
