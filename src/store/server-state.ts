/** State of the server itself that survives a restart, by name. */
import { integer, resultsOf, type Statement, text } from "./engine.ts";

export function serverStateIn(sql: Statement) {
  const { execute, changed } = resultsOf(sql);
  return {
    async of(name: string): Promise<{ value: string; changedAt: number } | undefined> {
      const { rows } = await sql`SELECT value, changed_at FROM server_state WHERE name = ${name}`;
      return rows[0] && { value: text(rows[0].value), changedAt: integer(rows[0].changed_at) };
    },

    set: (name: string, value: string, at: number) => execute`INSERT INTO server_state (name, value, changed_at)
        VALUES (${name}, ${value}, ${at})
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at`,

    /** Keeps the value as it is until the transaction ends. False: it is another one. */
    hold: (name: string, value: string) => changed`UPDATE server_state SET changed_at = changed_at
        WHERE name = ${name} AND value = ${value}`,
  };
}
