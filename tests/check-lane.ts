/** The lane `check`: several processes side by side, as the user nobody if root runs it, with one shared Postgres. */
import { postgresPrograms, SHARED_POSTGRES, startPostgres } from "../src/store/testing/postgres.ts";
import { type BunTestOptions, bunTest, type Outcome, WORKERS } from "./bun-test.ts";
import { filesOfLane } from "./lanes.ts";

export async function runCheckLane(
  files: readonly string[],
  given: Pick<BunTestOptions, "options" | "timed">,
): Promise<Outcome> {
  const chosen = filesOfLane("check", files);
  const way: BunTestOptions = { ...given, workers: WORKERS, asNobody: true };
  if (postgresPrograms === undefined) return await bunTest(chosen, way);
  await using postgres = await startPostgres(postgresPrograms);
  return await bunTest(chosen, { ...way, env: { [SHARED_POSTGRES]: postgres.address } });
}
