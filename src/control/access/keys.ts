/** Making, listing and revoking what opens the management interface. A secret is shown once, when it is made. */
import { Fault } from "../../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import type { AccessToken, ApiKey } from "../../store/keys.ts";
import type { Tables } from "../../store/store.ts";
import type { Clock } from "../../work/clock.ts";
import { KEY_NAME_MAX_CHARS } from "../limits.ts";
import type { Ids } from "./ids.ts";
import { hashOf, maskOf } from "./secrets.ts";

interface KeyServices {
  store: Tables;
  ids: Ids;
  clock: Clock;
}

export async function createApiKey(
  { store, ids, clock }: KeyServices,
  request: { teamId: string; name: string; createdBy: string | null },
): Promise<{ secret: string; key: ApiKey }> {
  const secret = ids.apiKey();
  const key: ApiKey = {
    id: ids.uuid(),
    teamId: request.teamId,
    name: checkedName(request.name),
    mask: maskOf(secret, API_KEY_PREFIX),
    createdAt: clock.now(),
    createdBy: request.createdBy,
    lastUsedAt: null,
  };
  await store.keys.addApiKey(key, certainHash(secret, API_KEY_PREFIX));
  return { secret, key };
}

export function listApiKeys({ store }: Pick<KeyServices, "store">, teamId: string): Promise<ApiKey[]> {
  return store.keys.apiKeysOf(teamId);
}

/** As it may be printed: `e2b_ab…wxyz`. */
export function maskedApiKey(key: ApiKey): string {
  return `${API_KEY_PREFIX}${key.mask.prefix}…${key.mask.suffix}`;
}

/** Effective with the next request. */
export async function revokeApiKey(
  { store }: Pick<KeyServices, "store">,
  teamId: string,
  keyId: string,
): Promise<void> {
  if (!(await store.keys.removeApiKey(teamId, keyId))) {
    throw new Fault(404, `this team has no API key with the id "${keyId}"; list the keys to see their ids`);
  }
}

export async function createAccessToken(
  { store, ids, clock }: KeyServices,
  request: { userId: string; name: string },
): Promise<{ secret: string; token: AccessToken }> {
  const secret = ids.accessToken();
  const token: AccessToken = {
    id: ids.uuid(),
    userId: request.userId,
    name: checkedName(request.name),
    mask: maskOf(secret, ACCESS_TOKEN_PREFIX),
    createdAt: clock.now(),
  };
  await store.keys.addAccessToken(token, certainHash(secret, ACCESS_TOKEN_PREFIX));
  return { secret, token };
}

function checkedName(name: string): string {
  if (name === "" || name.length > KEY_NAME_MAX_CHARS || name.includes("\u0000")) {
    throw new Fault(400, `the name of a key must have 1 to ${KEY_NAME_MAX_CHARS} characters, without NUL`);
  }
  return name;
}

function certainHash(secret: string, prefix: string): string {
  const hash = hashOf(secret, prefix);
  if (hash === undefined) throw new Fault(500, "a generated secret does not have the format of one");
  return hash;
}
