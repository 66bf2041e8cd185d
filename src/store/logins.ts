/**
 * Passwords of users, and logins: each is one client that a user, or the holder of an API key, has signed in. The
 * tokens of a login are not stored, only the number of its refresh token that is valid now.
 */
import type { Statement } from "./engine.ts";
import { textOrNull } from "./engine.ts";
import { INTEGER, orNull, type Stored, Table, TEXT } from "./table.ts";

const logins = new Table({
  id: TEXT,
  /** Either a user or an API key. */
  userId: orNull(TEXT),
  apiKeyId: orNull(TEXT),
  /** The API key itself, encrypted with a key outside the store. */
  sealedKey: orNull(TEXT),
  /** How many refresh tokens came before the valid one. */
  generation: INTEGER,
  /** When the valid refresh token was first returned. */
  rotatedAt: INTEGER,
  createdAt: INTEGER,
});
export type Login = Stored<typeof logins>;

export function loginsIn(sql: Statement) {
  const { first, execute, changed, count } = logins.over(sql);
  return {
    add: (login: Login) => execute`INSERT INTO logins ${logins.values(login)}`,
    byId: (id: string, createdAfter: number) => first`SELECT * FROM logins
        WHERE id = ${id} AND created_at > ${createdAfter}`,

    /** False: another call has already replaced this refresh token. */
    rotate: ({ id, generation }: Pick<Login, "id" | "generation">, now: number) => changed`UPDATE logins
        SET generation = ${generation + 1}, rotated_at = ${now} WHERE id = ${id} AND generation = ${generation}`,

    remove: (id: string) => changed`DELETE FROM logins WHERE id = ${id}`,
    removeOfUser: (userId: string) => execute`DELETE FROM logins WHERE user_id = ${userId}`,

    /** Keeps the newest of the same user or API key. */
    removeBeyond: ({ userId, apiKeyId }: Login, kept: number) => execute`DELETE FROM logins WHERE id IN
        (SELECT id FROM logins WHERE user_id = ${userId} OR api_key_id = ${apiKeyId}
         ORDER BY created_at DESC, id LIMIT 1000000 OFFSET ${kept})`,

    /** Removes at most `limit` logins; returns their number. */
    removeBefore: (time: number, limit: number) => count`DELETE FROM logins WHERE id IN
        (SELECT id FROM logins WHERE created_at < ${time} ORDER BY created_at LIMIT ${limit})`,

    setPassword: (userId: string, hash: string, now: number) => execute`
        INSERT INTO login_passwords (user_id, hash, set_at) VALUES (${userId}, ${hash}, ${now})
        ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, set_at = excluded.set_at`,

    /** False: there was none. */
    removePassword: (userId: string) => changed`DELETE FROM login_passwords WHERE user_id = ${userId}`,

    async passwordHash(userId: string): Promise<string | null> {
      const { rows } = await sql`SELECT hash FROM login_passwords WHERE user_id = ${userId}`;
      return textOrNull(rows[0]?.hash ?? null);
    },
  };
}
