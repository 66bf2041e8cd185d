/** Who is calling. Every request is looked up anew, so that a revoked key opens nothing from the next request on. */
import { Fault } from "../../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX, SECRET_HEX_CHARS } from "../../contract/management/identifiers.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { KEY_USE_WRITTEN_EVERY_MS } from "../limits.ts";
import { hashOf } from "./secrets.ts";

export interface Callers {
  /** `X-API-Key: e2b_…` */
  key: { team: Team };
  /** `Authorization: Bearer sk_e2b_…` */
  bearer: { userId: string };
  none: undefined;
}

export type Authentication = keyof Callers;

export async function authenticateKey(headers: Headers, store: Store, now: number): Promise<Callers["key"]> {
  const secret = headers.get("x-api-key");
  if (secret === null || secret === "") {
    throw new Fault(401, "the X-API-Key header is missing; send an API key of this server");
  }
  if (!secret.startsWith(API_KEY_PREFIX)) {
    throw new Fault(401, `the X-API-Key header is malformed; API keys start with ${API_KEY_PREFIX}`);
  }
  const hash = hashOf(secret, API_KEY_PREFIX);
  if (hash === undefined) {
    throw new Fault(
      401,
      `this API key is not valid; make one with "sandlot keys create"\n` +
        `it must be ${API_KEY_PREFIX} and ${SECRET_HEX_CHARS} hex characters`,
    );
  }
  const found = await store.keys.apiKeyByHash(hash);
  if (found === undefined) {
    throw new Fault(401, 'this API key is not valid; make one with "sandlot keys create"\nno team has this key');
  }
  if (now - (found.key.lastUsedAt ?? 0) >= KEY_USE_WRITTEN_EVERY_MS) await store.keys.noteApiKeyUse(found.key.id, now);
  return { team: found.team };
}

export async function authenticateBearer(headers: Headers, store: Store): Promise<Callers["bearer"]> {
  const header = headers.get("authorization");
  if (header === null || header === "") {
    throw new Fault(401, "the Authorization header is missing; send Bearer and an access token of this server");
  }
  const secret = /^bearer +(\S+)$/i.exec(header)?.[1];
  if (secret === undefined || !secret.startsWith(ACCESS_TOKEN_PREFIX)) {
    throw new Fault(
      401,
      `the Authorization header is malformed; send Bearer and a token that starts with ${ACCESS_TOKEN_PREFIX}`,
    );
  }
  const hash = hashOf(secret, ACCESS_TOKEN_PREFIX);
  const token = hash === undefined ? undefined : await store.keys.accessTokenByHash(hash);
  if (token === undefined) throw new Fault(401, "this access token is not valid\nno user has this token");
  return { userId: token.userId };
}
