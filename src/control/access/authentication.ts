/**
 * Authenticates requests. Keys are looked up for every request, so a revoked key fails from the next request on. This
 * folder says which team or user calls, and how often it may; it does not know what the call does.
 */
import { Fault } from "../../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX, SECRET_HEX_CHARS, UUID } from "../../contract/management/identifiers.ts";
import { shown } from "../../contract/shown.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { Volume } from "../../store/volumes.ts";
import type { LoginCaller, Logins } from "./logins.ts";
import { hashOf } from "./secrets.ts";

/** The client of a request, as far as the connection shows. */
export interface Client {
  /** Source address of the connection. */
  address: string;
  /** The request came through a proxy that the operator trusts, so its forwarding headers count. */
  fromTrustedProxy: boolean;
  /** It arrived over TLS. */
  isSecure?: boolean;
}

/** The last use of a key is written at most this often. */
const KEY_USE_WRITTEN_EVERY_MS = 60_000;

/** A JSON Web Token. */
const SIGNED_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

export interface Callers {
  /** `X-API-Key: e2b_…`; `userId` is the creator of the key, if known. */
  key: { team: Team; userId: string | null };
  /** `Authorization: Bearer sk_e2b_…`, or with the token of a user's login. */
  bearer: { userId: string };
  /** As bearer, or with the token of a login with an API key. */
  login: LoginCaller;
  /** As bearer, with `X-Team-ID: …`, the id of one of the user's teams. */
  member: { userId: string; email: string; team: Team };
  /** `Authorization: Bearer …`, with a token that opens the content of one volume. */
  volume: { volume: Volume };
  none: undefined;
}

/** The volume that a token opens; Fault 401 for any other token. */
export type VolumeOf = (token: string) => Promise<Volume>;

export type Authentication = keyof Callers;

const SEND_KEY = `send an API key of this server as X-API-Key: ${API_KEY_PREFIX}…`;
const SEND_TOKEN =
  `send an access token of this server as Authorization: Bearer ${ACCESS_TOKEN_PREFIX}…; ` +
  '"sandlot keys token" makes one';
const MISSING_KEY = "the X-API-Key header is missing; send an API key of this server";
const MISSING_TOKEN = "the Authorization header is missing; send Bearer and an access token of this server";
const TOKEN_AS_KEY = `the X-API-Key header is malformed: it holds an access token, which this endpoint does not take; ${SEND_KEY}`;
const KEY_AS_TOKEN = `the Authorization header is malformed: it holds an API key, which this endpoint does not take; ${SEND_TOKEN}`;
/** The X-API-Key header is missing, but the Authorization header holds a secret. */
const KEY_ASTRAY = {
  key: "the X-API-Key header is missing, and the Authorization header holds an API key; send it as X-API-Key",
  token: `the X-API-Key header is missing; this endpoint takes no access token: ${SEND_KEY}`,
} as const;
/** The Authorization header is missing, but the X-API-Key header holds a secret. */
const TOKEN_ASTRAY = {
  key: `the Authorization header is missing; this endpoint takes no API key: ${SEND_TOKEN}`,
  token:
    "the Authorization header is missing, and the X-API-Key header holds an access token; " +
    "send it as Authorization: Bearer",
} as const;

export async function authenticateKey(headers: Headers, store: Store, now: number): Promise<Callers["key"]> {
  const secret = headers.get("x-api-key");
  if (secret === null || secret === "") {
    const astray = kindOf(bearerIn(headers));
    throw new Fault(401, astray === undefined ? MISSING_KEY : KEY_ASTRAY[astray]);
  }
  if (kindOf(bareOf(secret)) === "token") throw new Fault(401, TOKEN_AS_KEY);
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
  return { team: found.team, userId: found.key.createdBy };
}

export async function authenticateBearer(headers: Headers, store: Store, logins: Logins): Promise<Callers["bearer"]> {
  const caller = await authenticateLogin(headers, store, logins);
  if ("userId" in caller) return caller;
  throw new Fault(
    403,
    "you are logged in with an API key, which lists its team and no more; log in as a user, or send an access token",
  );
}

export async function authenticateLogin(headers: Headers, store: Store, logins: Logins): Promise<LoginCaller> {
  const header = headers.get("authorization");
  if (header === null || header === "") {
    const astray = kindOf(bareOf(headers.get("x-api-key") ?? ""));
    throw new Fault(401, astray === undefined ? MISSING_TOKEN : TOKEN_ASTRAY[astray]);
  }
  const secret = bearerIn(headers);
  if (kindOf(secret) === "key") throw new Fault(401, KEY_AS_TOKEN);
  if (secret !== undefined && SIGNED_TOKEN.test(secret)) return logins.callerOf(secret);
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

/** A team that the user does not belong to gets the same response as one that does not exist. */
export async function authenticateMember(headers: Headers, store: Store, logins: Logins): Promise<Callers["member"]> {
  const { userId } = await authenticateBearer(headers, store, logins);
  const teamId = headers.get("x-team-id") ?? "";
  if (teamId === "") {
    throw new Fault(401, "the X-Team-ID header is missing; send the id of one of your teams, as GET /teams lists them");
  }
  const member = UUID.test(teamId) ? await store.people.member(userId, teamId.toLowerCase()) : undefined;
  if (member === undefined) {
    const id = shown(teamId);
    throw new Fault(403, `you belong to no team with the id ${id} of the X-Team-ID header; GET /teams lists yours`);
  }
  return { userId, ...member };
}

export async function authenticateVolume(headers: Headers, volumeOf: VolumeOf | undefined): Promise<Callers["volume"]> {
  const token = bearerIn(headers);
  if (token === undefined || volumeOf === undefined) {
    throw new Fault(
      401,
      "send Authorization: Bearer and the token that POST /volumes or GET /volumes/{volumeID} answered",
    );
  }
  return { volume: await volumeOf(token) };
}

function bearerIn(headers: Headers): string | undefined {
  return /^bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1];
}

/** Some clients send the scheme of the other header along with the secret. */
function bareOf(secret: string): string {
  return secret.replace(/^bearer +/i, "");
}

function kindOf(secret: string | undefined): "key" | "token" | undefined {
  if (secret?.startsWith(ACCESS_TOKEN_PREFIX)) return "token";
  return secret?.startsWith(API_KEY_PREFIX) ? "key" : undefined;
}
