/** `sandlot keys …`: what opens the management interface. */
import { Fault } from "../contract/fault.ts";
import { createIds } from "../control/access/ids.ts";
import {
  createAccessToken,
  createApiKey,
  listAccessTokens,
  listApiKeys,
  maskedAccessToken,
  maskedApiKey,
  revokeAccessToken,
  revokeApiKey,
} from "../control/access/keys.ts";
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
  const owner = { teamId: team.id, userId: user.id };
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
      for (const line of await listed(store, owner)) console.log(line);
      return 0;
    case "revoke":
      if (value === undefined) throw new Fault(400, "which key? `sandlot keys list` shows the ids");
      await revoke(store, owner, value);
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

interface Owner {
  teamId: string;
  userId: string;
}

/** API keys of the team, then access tokens of the operator. */
async function listed(store: Store, { teamId, userId }: Owner): Promise<string[]> {
  const keyLines = (await listApiKeys({ store }, teamId)).map((key) => {
    const used = key.lastUsedAt === null ? "never used" : `used ${iso(key.lastUsedAt)}`;
    return `${key.id}  ${maskedApiKey(key)}  ${iso(key.createdAt)}  ${used}  ${key.name}`;
  });
  const tokenLines = (await listAccessTokens({ store }, userId)).map(
    (token) => `${token.id}  ${maskedAccessToken(token)}  ${iso(token.createdAt)}  ${token.name}`,
  );
  return [...keyLines, ...tokenLines];
}

/** A key or a token: `sandlot keys list` shows both. */
async function revoke(store: Store, { teamId, userId }: Owner, id: string): Promise<void> {
  const isToken = (await listAccessTokens({ store }, userId)).some((token) => token.id === id);
  await (isToken ? revokeAccessToken({ store }, userId, id) : revokeApiKey({ store }, teamId, id));
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
