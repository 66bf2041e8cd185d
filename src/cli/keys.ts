/** `sandlot keys …`: what opens the management interface. */
import { Fault } from "../contract/fault.ts";
import { createIds } from "../control/access/ids.ts";
import { createAccessToken, createApiKey, listApiKeys, maskedApiKey, revokeApiKey } from "../control/access/keys.ts";
import { DEFAULT_TEAM_SLUG, OPERATOR_EMAIL } from "../control/first-run.ts";
import type { Store } from "../store/store.ts";
import { systemClock } from "../work/clock.ts";
import type { Config } from "./config.ts";
import { withStore } from "./own-store.ts";

export function keys(config: Config, args: readonly string[]): Promise<number> {
  return withStore(config, (store) => run(store, args));
}

async function run(store: Store, args: readonly string[]): Promise<number> {
  const services = { store, ids: createIds(), clock: systemClock };
  const team = await store.people.teamBySlug(DEFAULT_TEAM_SLUG);
  const user = await store.people.userByEmail(OPERATOR_EMAIL);
  if (team === undefined || user === undefined) throw new Fault(404, "the store has no team yet. FIX: npm start");
  const [action, value, ...rest] = args;
  if (rest.length > 0) throw new Fault(400, `too many arguments: ${rest.join(" ")}`);
  switch (action) {
    case "create": {
      const made = await createApiKey(services, { teamId: team.id, name: value ?? "unnamed", createdBy: user.id });
      console.log(made.secret);
      return 0;
    }
    case "list":
      if (value !== undefined) throw new Fault(400, `sandlot keys list takes no arguments, but got "${value}"`);
      for (const key of await listApiKeys(services, team.id)) {
        console.log(`${key.id}  ${maskedApiKey(key)}  ${new Date(key.createdAt).toISOString()}  ${key.name}`);
      }
      return 0;
    case "revoke":
      if (value === undefined) throw new Fault(400, "which key? `sandlot keys list` shows the ids");
      await revokeApiKey(services, team.id, value);
      console.log(`revoked ${value}`);
      return 0;
    case "token": {
      const made = await createAccessToken(services, { userId: user.id, name: value ?? "unnamed" });
      console.log(made.secret);
      return 0;
    }
    default:
      throw new Fault(400, "sandlot keys takes create [NAME], list, revoke ID or token [NAME]");
  }
}
