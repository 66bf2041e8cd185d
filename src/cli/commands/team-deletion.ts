/** `sandlot teams delete`: a running server deletes the team at once; without one, the next start does. */
import { Fault } from "../../contract/fault.ts";
import { anyTeamNamed, beginTeamDeletion } from "../../control/access/people.ts";
import { adminCall } from "../admin-client.ts";
import type { Config } from "../settings/config.ts";
import { recording, withStore } from "../with-store.ts";

const DELETED_WITHIN_MS = 10 * 60_000;
const LOOKED_EVERY_MS = 250;

export function deleteTeam(config: Config, slug: string): Promise<number> {
  return withStore(config, async (store) => {
    const team = await anyTeamNamed(store, slug);
    if (!(await serverRuns(config))) {
      await beginTeamDeletion(recording(store, "teams delete"), team);
      console.log(`no server runs: the next start deletes team ${slug} with everything that it owns`);
      return 0;
    }
    await adminCall(config, `DELETE /admin/teams/${team.id}`);
    const deadline = Date.now() + DELETED_WITHIN_MS;
    while ((await store.people.team(team.id)) !== undefined) {
      if (Date.now() > deadline) {
        throw new Fault(
          504,
          `team ${slug} is not deleted yet; the server continues, and its log says what is left. \`sandlot teams ` +
            "list` shows the team until it is gone",
        );
      }
      await Bun.sleep(LOOKED_EVERY_MS);
    }
    console.log(`deleted team ${slug} with everything that it owned`);
    return 0;
  });
}

async function serverRuns(config: Config): Promise<boolean> {
  try {
    await adminCall(config, "GET /status");
    return true;
  } catch (thrown) {
    if (thrown instanceof Fault && thrown.status === 404) return false;
    throw thrown;
  }
}
