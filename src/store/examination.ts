/** Facts about a database in Postgres, for the doctor. */
import { openPostgres } from "./postgres.ts";

/** The oldest version that the tests run on. */
export const POSTGRES_VERSION_MIN = 15;
const ROUND_TRIPS = 5;

/** The median of some statements is the time of one. */
export async function examinePostgres(url: string): Promise<{ version: string; roundTripMs: number }> {
  const engine = await openPostgres(url);
  try {
    const { rows } = await engine.sql`SELECT current_setting('server_version') AS version`;
    const times: number[] = [];
    for (let nth = 0; nth < ROUND_TRIPS; nth++) {
      const startedMs = performance.now();
      await engine.sql`SELECT 1`;
      times.push(performance.now() - startedMs);
    }
    const roundTripMs = times.toSorted((a, b) => a - b)[Math.floor(ROUND_TRIPS / 2)] ?? 0;
    return { version: String(rows[0]?.version).split(" ", 1)[0] ?? "", roundTripMs };
  } finally {
    await engine.close();
  }
}
