/** `sandlot keys …`: API keys and access tokens. */
import { systemClock } from "../base/clock.ts";
import { Fault } from "../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../contract/management/identifiers.ts";
import { createIds } from "../control/access/ids.ts";
import {
  createAccessToken,
  createApiKey,
  maskedSecret,
  revokeAccessToken,
  revokeApiKey,
} from "../control/access/keys.ts";
import { DEFAULT_TEAM_SLUG, OPERATOR_EMAIL } from "../control/first-run.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "./config.ts";
import { withStore } from "./with-store.ts";

interface Owner {
  teamId: string;
  userId: string;
}

export function createKey(config: Config, name = "unnamed"): Promise<number> {
  return withOwner(config, async (store, { teamId, userId }) => {
    const services = { store, ids: createIds(), clock: systemClock };
    return [(await createApiKey(services, { teamId, name, createdBy: userId })).secret];
  });
}

export function createToken(config: Config, name = "unnamed"): Promise<number> {
  return withOwner(config, async (store, { userId }) => {
    const services = { store, ids: createIds(), clock: systemClock };
    return [(await createAccessToken(services, { userId, name })).secret];
  });
}

export function listKeys(config: Config): Promise<number> {
  return withOwner(config, listed);
}

/** A key or a token: `sandlot keys list` shows both. */
export function revokeKey(config: Config, id: string): Promise<number> {
  return withOwner(config, async (store, { teamId, userId }) => {
    const isToken = (await store.keys.accessTokensOf(userId)).some((token) => token.id === id);
    await (isToken ? revokeAccessToken({ store }, userId, id) : revokeApiKey({ store }, teamId, id));
    return [`revoked ${id}`];
  });
}

/** Prints the lines that `work` returns. */
function withOwner(config: Config, work: (store: Store, owner: Owner) => Promise<string[]>): Promise<number> {
  return withStore(config, async (store) => {
    const team = await store.people.teamBySlug(DEFAULT_TEAM_SLUG);
    const user = await store.people.userByEmail(OPERATOR_EMAIL);
    if (team === undefined || user === undefined) throw new Fault(404, "the store has no team yet. FIX: sandlot up");
    for (const line of await work(store, { teamId: team.id, userId: user.id })) console.log(line);
    return 0;
  });
}

/** API keys of the team, then access tokens of the operator. */
async function listed(store: Store, { teamId, userId }: Owner): Promise<string[]> {
  const keyLines = (await store.keys.apiKeysOf(teamId)).map((key) => {
    const used = key.lastUsedAt === null ? "never used" : `used ${iso(key.lastUsedAt)}`;
    return `${key.id}  ${maskedSecret(API_KEY_PREFIX, key)}  ${iso(key.createdAt)}  ${used}  ${key.name}`;
  });
  const tokenLines = (await store.keys.accessTokensOf(userId)).map(
    (token) => `${token.id}  ${maskedSecret(ACCESS_TOKEN_PREFIX, token)}  ${iso(token.createdAt)}  ${token.name}`,
  );
  return [...keyLines, ...tokenLines];
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
