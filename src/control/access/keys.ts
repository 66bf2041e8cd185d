/**
 * Creates, lists, renames and revokes API keys and access tokens, for the routes and the `sandlot keys` command. A
 * secret is shown once, on creation; only its hash is stored.
 */
import { Fault } from "../../contract/fault.ts";
import { keyName } from "../../contract/management/api-key.ts";
import {
  ACCESS_TOKEN_PREFIX,
  ADMIN_TOKEN_PREFIX,
  API_KEY_PREFIX,
  UUID,
} from "../../contract/management/identifiers.ts";
import { KEY_NAME_MAX_CHARS } from "../../contract/management/limits.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { AccessToken, AdminToken, ApiKey, Mask } from "../../store/keys.ts";
import type { Team } from "../../store/people.ts";
import type { Store, Tables } from "../../store/store.ts";
import { type Recording, record } from "../audit/audit.ts";
import { hashOf, maskOf } from "./credentials.ts";
import { lockTeam } from "./people.ts";

/** Every login of a user also makes one. */
export const API_KEYS_PER_TEAM_MAX = 250;
export const ACCESS_TOKENS_PER_USER_MAX = 100;
export const ADMIN_TOKENS_MAX = 100;

interface KeyServices<S> extends Recording {
  store: S;
}

interface ApiKeyRequest {
  teamId: string;
  name: string;
  createdBy: string | null;
}

interface CreatedApiKey {
  secret: string;
  key: ApiKey;
}

/** Fault 429 when the team has reached its maximum. */
export function createApiKey(services: KeyServices<Store>, request: ApiKeyRequest): Promise<CreatedApiKey> {
  return services.store.transaction((store) => createApiKeyIn({ ...services, store }, request));
}

/** As `createApiKey`, inside a transaction of the caller. */
export async function createApiKeyIn(services: KeyServices<Tables>, request: ApiKeyRequest): Promise<CreatedApiKey> {
  const { store, ids, clock } = services;
  const name = checkedName(request.name);
  await lockTeam(store, request.teamId);
  if ((await store.keys.countApiKeys(request.teamId)) >= API_KEYS_PER_TEAM_MAX) {
    throw new Fault(
      429,
      `the team ${request.teamId} has ${API_KEYS_PER_TEAM_MAX} API keys, as many as a team may have; ` +
        'delete one first, with DELETE /api-keys/{apiKeyID} or "sandlot keys revoke"',
    );
  }
  const secret = ids.apiKey();
  const key: ApiKey = {
    id: ids.uuid(),
    teamId: request.teamId,
    name,
    hash: certainHash(secret, API_KEY_PREFIX),
    ...maskOf(secret, API_KEY_PREFIX),
    createdAt: clock.now(),
    createdBy: request.createdBy,
    lastUsedAt: null,
  };
  await store.keys.addApiKey(key);
  await record(store, services, { teamId: request.teamId, object: key.id });
  return { secret, key };
}

/** Whether this secret is a key of any team. */
export async function isApiKey({ store }: { store: Tables }, secret: string): Promise<boolean> {
  const hash = secret.startsWith(API_KEY_PREFIX) ? hashOf(secret, API_KEY_PREFIX) : undefined;
  return hash !== undefined && (await store.keys.apiKeyByHash(hash)) !== undefined;
}

export async function renameApiKey(
  services: KeyServices<Store>,
  teamId: string,
  keyId: string,
  name: string,
): Promise<void> {
  const id = checkedId(keyId, "API key");
  const checked = checkedName(name);
  await services.store.transaction(async (tables) => {
    if (!(await tables.keys.renameApiKey(teamId, id, checked))) throw noApiKey(id);
    await record(tables, services, { teamId, object: id });
  });
}

/** Takes effect with the next request. The last key of a team can be revoked too: its members can make another. */
export async function revokeApiKey(services: KeyServices<Store>, teamId: string, keyId: string): Promise<void> {
  const id = checkedId(keyId, "API key");
  await services.store.transaction(async (tables) => {
    if (!(await tables.keys.removeApiKey(teamId, id))) throw noApiKey(id);
    await record(tables, services, { teamId, object: id });
  });
}

/** Fault 429 when the user has reached the maximum. */
export function createAccessToken(
  services: KeyServices<Store>,
  request: { userId: string; name: string },
): Promise<{ secret: string; token: AccessToken }> {
  const { store, ids, clock } = services;
  const { userId } = request;
  const name = checkedName(request.name);
  return store.transaction(async (tables) => {
    const { people, keys } = tables;
    await people.holdUser(userId);
    if ((await keys.accessTokensOf(userId)).length >= ACCESS_TOKENS_PER_USER_MAX) {
      throw new Fault(
        429,
        `you have ${ACCESS_TOKENS_PER_USER_MAX} access tokens, as many as a user may have; ` +
          'delete one first, with DELETE /access-tokens/{accessTokenID} or "sandlot keys revoke"',
      );
    }
    const secret = ids.accessToken();
    const hash = certainHash(secret, ACCESS_TOKEN_PREFIX);
    const mask = maskOf(secret, ACCESS_TOKEN_PREFIX);
    const token: AccessToken = { id: ids.uuid(), userId, name, hash, ...mask, createdAt: clock.now() };
    await keys.addAccessToken(token);
    await record(tables, services, { teamId: null, object: `${token.id} of user ${userId}` });
    return { secret, token };
  });
}

/** Takes effect with the next request, even for the token that authenticates this call. */
export async function revokeAccessToken(services: KeyServices<Store>, userId: string, tokenId: string): Promise<void> {
  const id = checkedId(tokenId, "access token");
  await services.store.transaction(async (tables) => {
    if (!(await tables.keys.removeAccessToken(userId, id))) {
      throw new Fault(404, `you have no access token with the id "${id}"`);
    }
    await record(tables, services, { teamId: null, object: `${id} of user ${userId}` });
  });
}

/** For `X-Admin-Token`. Fault 429 when there are as many as there may be. */
export function createAdminToken(
  services: KeyServices<Store>,
  request: { name: string },
): Promise<{ secret: string; token: AdminToken }> {
  const { store, ids, clock } = services;
  const name = checkedName(request.name);
  return store.transaction(async (tables) => {
    if ((await tables.keys.adminTokens()).length >= ADMIN_TOKENS_MAX) {
      throw new Fault(429, `there are ${ADMIN_TOKENS_MAX} admin tokens, as many as there may be; revoke one first`);
    }
    const secret = ids.adminToken();
    const [hash, mask] = [certainHash(secret, ADMIN_TOKEN_PREFIX), maskOf(secret, ADMIN_TOKEN_PREFIX)];
    const token: AdminToken = { id: ids.uuid(), name, hash, ...mask, createdAt: clock.now(), lastUsedAt: null };
    await tables.keys.addAdminToken(token);
    await record(tables, services, { teamId: null, object: token.id });
    return { secret, token };
  });
}

/** Takes effect with the next request. */
export async function revokeAdminToken(services: KeyServices<Store>, tokenId: string): Promise<void> {
  const id = checkedId(tokenId, "admin token");
  await services.store.transaction(async (tables) => {
    if (!(await tables.keys.removeAdminToken(id))) throw new Fault(404, `there is no admin token with the id "${id}"`);
    await record(tables, services, { teamId: null, object: id });
  });
}

/** The form that is printed: `e2b_ab…wxyz`. */
export function maskedSecret(prefix: string, mask: Mask): string {
  return `${prefix}${mask.maskPrefix}…${mask.maskSuffix}`;
}

/** A blocked team may only list and revoke its keys. */
export function refuseBlocked({ limits }: Team): void {
  if (!limits.blocked) return;
  throw new Fault(403, "this team is blocked: its API keys can be listed and deleted, but not made or renamed");
}

function noApiKey(id: string): Fault {
  return new Fault(404, `this team has no API key with the id "${id}"; list the keys to see their ids`);
}

function checkedId(id: string, what: string): string {
  if (UUID.test(id)) return id.toLowerCase();
  throw new Fault(400, `invalid id of an ${what}: ${quoted(id)}; it is a UUID`);
}

function checkedName(name: string): string {
  if (keyName.safeParse(name).success) return name;
  throw new Fault(
    400,
    `the name of a key must have 1 to ${KEY_NAME_MAX_CHARS} characters, not be blank, and hold no control characters`,
  );
}

function certainHash(secret: string, prefix: string): string {
  const hash = hashOf(secret, prefix);
  if (hash === undefined) throw new Fault(500, "a generated secret does not have the format of one");
  return hash;
}
