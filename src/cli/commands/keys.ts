/**
 * `sandlot keys …`: API keys of a team, and access tokens of a user. By default those of the first team and user.
 * `sandlot admin …`: admin tokens.
 */
import { Fault } from "../../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, ADMIN_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import {
  createAccessToken,
  createAdminToken,
  createApiKey,
  maskedSecret,
  revokeAccessToken,
  revokeAdminToken,
  revokeApiKey,
} from "../../control/access/keys.ts";
import { DEFAULT_TEAM_SLUG, OPERATOR_EMAIL, teamNamed, userNamed } from "../../control/access/people.ts";
import type { Team, User } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { isoTime } from "../iso-time.ts";
import type { Config } from "../settings/config.ts";
import { printFromStore, recording } from "../with-store.ts";

/** The owner that the options `--team` and `--user` name. */
export interface OwnerNames {
  team: string | undefined;
  user: string | undefined;
}

interface Owner {
  team: Team;
  /** Undefined: only keys of the team are meant. */
  user: User | undefined;
}

export function createKey(config: Config, names: OwnerNames, name = "unnamed"): Promise<number> {
  return withOwner(config, names, async (store, { team, user }) => {
    const services = recording(store, "keys create");
    return [(await createApiKey(services, { teamId: team.id, name, createdBy: user?.id ?? null })).secret];
  });
}

export function createToken(config: Config, email = OPERATOR_EMAIL, name = "unnamed"): Promise<number> {
  return withOwner(config, { team: undefined, user: email }, async (store, { user }) => {
    const services = recording(store, "keys token");
    return [(await createAccessToken(services, { userId: user?.id ?? "", name })).secret];
  });
}

/** API keys of the team, then access tokens of the user. */
export function listKeys(config: Config, names: OwnerNames): Promise<number> {
  return withOwner(
    config,
    names,
    async (store, { team, user }) => {
      const keyLines = (await store.keys.apiKeysOf(team.id)).map((key) => {
        const used = key.lastUsedAt === null ? "never used" : `used ${isoTime(key.lastUsedAt)}`;
        return `${key.id}  ${maskedSecret(API_KEY_PREFIX, key)}  ${isoTime(key.createdAt)}  ${used}  ${key.name}`;
      });
      const tokens = user === undefined ? [] : await store.keys.accessTokensOf(user.id);
      const tokenLines = tokens.map(
        (token) =>
          `${token.id}  ${maskedSecret(ACCESS_TOKEN_PREFIX, token)}  ${isoTime(token.createdAt)}  ${token.name}`,
      );
      return [...keyLines, ...tokenLines];
    },
    "no API keys or access tokens",
  );
}

/** A key or a token: `sandlot keys list` shows both. */
export function revokeKey(config: Config, names: OwnerNames, id: string): Promise<number> {
  return withOwner(config, names, async (store, { team, user }) => {
    const tokens = user === undefined ? [] : await store.keys.accessTokensOf(user.id);
    const services = recording(store, "keys revoke");
    if (user !== undefined && tokens.some((token) => token.id === id)) await revokeAccessToken(services, user.id, id);
    else await revokeApiKey(services, team.id, id);
    return [`revoked ${id}`];
  });
}

export function createAdmin(config: Config, name = "unnamed"): Promise<number> {
  return printFromStore(config, async (store) => [
    (await createAdminToken(recording(store, "admin create"), { name })).secret,
  ]);
}

export function listAdmins(config: Config): Promise<number> {
  return printFromStore(
    config,
    async (store) =>
      (await store.keys.adminTokens()).map((token) => {
        const used = token.lastUsedAt === null ? "never used" : `used ${isoTime(token.lastUsedAt)}`;
        const masked = maskedSecret(ADMIN_TOKEN_PREFIX, token);
        return `${token.id}  ${masked}  ${isoTime(token.createdAt)}  ${used}  ${token.name}`;
      }),
    "no admin tokens",
  );
}

export function revokeAdmin(config: Config, id: string): Promise<number> {
  return printFromStore(config, async (store) => {
    await revokeAdminToken(recording(store, "admin revoke"), id);
    return [`revoked ${id}`];
  });
}

/**
 * Prints the lines that `work` returns, or `ifEmpty` if there are none. Without a user, tokens of the operator are
 * meant as well, unless a team is named.
 */
function withOwner(
  config: Config,
  { team: slug, user: email }: OwnerNames,
  work: (store: Store, owner: Owner) => Promise<string[]>,
  ifEmpty?: string,
): Promise<number> {
  return printFromStore(
    config,
    async (store) => {
      if ((await store.people.userByEmail(OPERATOR_EMAIL)) === undefined) {
        throw new Fault(404, "the store has no team yet. FIX: sandlot up");
      }
      const wanted = email ?? (slug === undefined ? OPERATOR_EMAIL : undefined);
      const user = wanted === undefined ? undefined : await userNamed(store, wanted);
      const team = await teamNamed(store, slug ?? DEFAULT_TEAM_SLUG);
      return work(store, { team, user });
    },
    ifEmpty,
  );
}
