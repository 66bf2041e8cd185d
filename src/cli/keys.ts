/** `sandlot keys …`: works on the store directly, beside a running server or without one. */
import { existsSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { systemClock } from "../control/clock.ts";
import { DEFAULT_TEAM_SLUG, OPERATOR_EMAIL } from "../control/first-run.ts";
import { createIds } from "../control/ids.ts";
import { createAccessToken, createApiKey, listApiKeys, maskedApiKey, revokeApiKey } from "../control/keys.ts";
import { DataFolder } from "../host/data-folder.ts";
import { openStore } from "../store/store.ts";
import type { Config } from "./config.ts";
import { demandRoot } from "./prepare.ts";

export async function keys(config: Config, args: readonly string[]): Promise<number> {
  demandRoot();
  const data = new DataFolder(config.dataFolder);
  if (!existsSync(data.storeFile))
    throw new Fault(404, `no server has run on ${config.dataFolder} yet. FIX: npm start`);
  const store = await openStore(`sqlite://${data.storeFile}`, systemClock.now());
  const rooms = { store, ids: createIds(), clock: systemClock };
  try {
    const team = await store.people.teamBySlug(DEFAULT_TEAM_SLUG);
    const user = await store.people.userByEmail(OPERATOR_EMAIL);
    if (team === undefined || user === undefined) throw new Fault(404, "the store has no team yet. FIX: npm start");
    const [action, value, ...rest] = args;
    if (rest.length > 0) throw new Fault(400, `too many arguments: ${rest.join(" ")}`);
    switch (action) {
      case "create": {
        const made = await createApiKey(rooms, { teamId: team.id, name: value ?? "unnamed", createdBy: user.id });
        console.log(made.secret);
        return 0;
      }
      case "list":
        if (value !== undefined) throw new Fault(400, `sandlot keys list takes no arguments, but got "${value}"`);
        for (const key of await listApiKeys(rooms, team.id)) {
          console.log(`${key.id}  ${maskedApiKey(key)}  ${new Date(key.createdAt).toISOString()}  ${key.name}`);
        }
        return 0;
      case "revoke":
        if (value === undefined) throw new Fault(400, "which key? `sandlot keys list` shows the ids");
        await revokeApiKey(rooms, team.id, value);
        console.log(`revoked ${value}`);
        return 0;
      case "token": {
        const made = await createAccessToken(rooms, { userId: user.id, name: value ?? "unnamed" });
        console.log(made.secret);
        return 0;
      }
      default:
        throw new Fault(400, "sandlot keys takes create [NAME], list, revoke ID or token [NAME]");
    }
  } finally {
    await store.close();
  }
}
