/**
 * Authenticates requests. Keys are looked up for every request, so a revoked key fails from the next request on. This
 * folder says which team or user calls, and how often it may; it does not know what the call does.
 */
import { Fault } from "../../contract/fault.ts";
import {
  ACCESS_TOKEN_PREFIX,
  ADMIN_TOKEN_PREFIX,
  API_KEY_PREFIX,
  SECRET_HEX_CHARS,
  UUID,
} from "../../contract/management/identifiers.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import type { Volume } from "../../store/volumes.ts";
import type { Actor } from "../audit/audit.ts";
import { hashOf } from "./credentials.ts";
import type { LoginCaller, Logins } from "./logins.ts";
import { teamWithId } from "./people.ts";

/** The client of a request, as far as the connection shows. */
export interface Client {
  /** Source address of the connection. */
  address: string;
  /** The request came through a proxy that the operator trusts, so its forwarding headers count. */
  fromTrustedProxy: boolean;
  /** It arrived over TLS. */
  isSecure?: boolean;
  /** It came through the admin socket, which only root can reach. */
  isRoot?: boolean;
}

/** The last use of a key is written at most this often. */
const KEY_USE_WRITTEN_EVERY_MS = 60_000;

/** A JSON Web Token. */
const SIGNED_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

export interface Callers {
  /**
   * `X-API-Key: e2b_…`; or as `member`, or as `admin` with `X-Team-ID: …`. `userId` is the user, or the creator of the
   * key, if known.
   */
  key: { team: Team; userId: string | null; actor: Actor };
  /** `Authorization: Bearer sk_e2b_…`, or with the token of a user's login. */
  bearer: { userId: string; actor: Actor };
  /** As bearer, or with the token of a login with an API key. */
  login: LoginCaller & { actor: Actor };
  /**
   * As bearer, with `X-Team-ID: …`, the id of one of the user's teams; or as `admin` with the id
   * of any team, and then without a user.
   */
  member: { userId: string | null; email: string | null; team: Team; actor: Actor };
  /** `X-Admin-Token: sandlot_admin_…`, or root through the admin socket. */
  admin: { actor: Actor };
  /** `Authorization: Bearer …`, with a token that opens the content of one volume. */
  volume: { volume: Volume };
  none: undefined;
}

/** The volume that a token opens; Fault 401 for any other token. */
export type VolumeOf = (token: string) => Promise<Volume>;

export type Authentication = keyof Callers;

const SEND_KEY = `send an API key of this server as X-API-Key: ${API_KEY_PREFIX}…`;
const SEND_ADMIN_TOKEN = '"sandlot admin create" makes one';
const SEND_TOKEN =
  `send an access token of this server as Authorization: Bearer ${ACCESS_TOKEN_PREFIX}…; ` +
  '"sandlot keys token" makes one';
const MISSING_KEY = "the X-API-Key header is missing; send an API key of this server";
const MISSING_TOKEN = "the Authorization header is missing; send Bearer and an access token of this server";
const TOKEN_AS_KEY = `the X-API-Key header is malformed: it holds an access token, which this endpoint does not take; ${SEND_KEY}`;
const KEY_AS_TOKEN = `the Authorization header is malformed: it holds an API key, which this endpoint does not take; ${SEND_TOKEN}`;
/** The X-API-Key header is missing, but the Authorization header holds a secret. */
const MISPLACED_FOR_KEY = {
  key: "the X-API-Key header is missing, and the Authorization header holds an API key; send it as X-API-Key",
  token: `the X-API-Key header is missing; an access token also needs X-Team-ID, the id of one of your teams: or ${SEND_KEY}`,
} as const;
/** The Authorization header is missing, but the X-API-Key header holds a secret. */
const MISPLACED_FOR_TOKEN = {
  key: `the Authorization header is missing; this endpoint takes no API key: ${SEND_TOKEN}`,
  token:
    "the Authorization header is missing, and the X-API-Key header holds an access token; " +
    "send it as Authorization: Bearer",
} as const;

/** What authentication looks at. */
interface Credentials {
  headers: Headers;
  client: Client | undefined;
  store: Store;
  logins: Logins;
  now: number;
}

type BearerCredentials = Pick<Credentials, "headers" | "store" | "logins">;

/** The message for an invalid key has two lines, as that of E2B: a general hint, then what is wrong. */
export async function authenticateKey(given: Credentials): Promise<Callers["key"]> {
  const { headers, store, now } = given;
  const secret = headers.get("x-api-key");
  if (secret === null || secret === "") {
    const hasTeam = (headers.get("x-team-id") ?? "") !== "";
    const bearer = bearerIn(headers);
    if (isAdmin(given) || (hasTeam && bearer !== undefined)) return await authenticateMember(given);
    const astray = secretKindOf(bearer);
    throw new Fault(401, astray === undefined ? MISSING_KEY : MISPLACED_FOR_KEY[astray]);
  }
  if (secretKindOf(withoutScheme(secret)) === "token") throw new Fault(401, TOKEN_AS_KEY);
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
  const { team, key } = found;
  if (team.deletingSince !== null) throw new Fault(403, "the team of this API key is being deleted");
  if (now - (key.lastUsedAt ?? 0) >= KEY_USE_WRITTEN_EVERY_MS) await store.keys.noteApiKeyUse(key.id, now);
  return { team, userId: key.createdBy, actor: { kind: "key", id: key.id } };
}

export async function authenticateBearer(given: BearerCredentials): Promise<Callers["bearer"]> {
  const caller = await authenticateLogin(given);
  if ("userId" in caller) return caller;
  throw new Fault(
    403,
    "you are logged in with an API key, which lists its team and no more; log in as a user, or send an access token",
  );
}

export async function authenticateLogin({ headers, store, logins }: BearerCredentials): Promise<Callers["login"]> {
  const header = headers.get("authorization");
  if (header === null || header === "") {
    const astray = secretKindOf(withoutScheme(headers.get("x-api-key") ?? ""));
    throw new Fault(401, astray === undefined ? MISSING_TOKEN : MISPLACED_FOR_TOKEN[astray]);
  }
  const secret = bearerIn(headers);
  if (secretKindOf(secret) === "key") throw new Fault(401, KEY_AS_TOKEN);
  if (secret !== undefined && SIGNED_TOKEN.test(secret)) {
    const caller = await logins.callerOf(secret);
    const actor: Actor = "userId" in caller ? { kind: "user", id: caller.userId } : { kind: "key", id: caller.keyId };
    return { ...caller, actor };
  }
  if (secret === undefined || !secret.startsWith(ACCESS_TOKEN_PREFIX)) {
    throw new Fault(
      401,
      `the Authorization header is malformed; send Bearer and a token that starts with ${ACCESS_TOKEN_PREFIX}`,
    );
  }
  const hash = hashOf(secret, ACCESS_TOKEN_PREFIX);
  const token = hash === undefined ? undefined : await store.keys.accessTokenByHash(hash);
  if (token === undefined) throw new Fault(401, "this access token is not valid\nno user has this token");
  return { userId: token.userId, actor: { kind: "user", id: token.userId } };
}

/** A team that the user does not belong to gets the same response as one that does not exist. */
export async function authenticateMember(given: Credentials): Promise<Callers["member"]> {
  const { headers, store } = given;
  const teamId = headers.get("x-team-id") ?? "";
  if (isAdmin(given)) {
    const { actor } = await authenticateAdmin(given);
    if (teamId === "") throw new Fault(401, "the X-Team-ID header is missing; GET /admin/teams lists the ids of teams");
    return { userId: null, email: null, team: await teamWithId(store, teamId), actor };
  }
  const { userId, actor } = await authenticateBearer(given);
  if (teamId === "") {
    throw new Fault(401, "the X-Team-ID header is missing; send the id of one of your teams, as GET /teams lists them");
  }
  const member = UUID.test(teamId) ? await store.people.member(userId, teamId.toLowerCase()) : undefined;
  if (member === undefined) {
    const id = quoted(teamId);
    throw new Fault(403, `you belong to no team with the id ${id} of the X-Team-ID header; GET /teams lists yours`);
  }
  if (member.team.deletingSince !== null) throw new Fault(403, `the team ${quoted(teamId)} is being deleted`);
  return { userId, ...member, actor };
}

export async function authenticateAdmin({ headers, client, store, now }: Credentials): Promise<Callers["admin"]> {
  if (client?.isRoot) return { actor: { kind: "root", id: null } };
  const secret = headers.get("x-admin-token") ?? "";
  if (secret === "") throw new Fault(401, `the X-Admin-Token header is missing; ${SEND_ADMIN_TOKEN}`);
  if (!secret.startsWith(ADMIN_TOKEN_PREFIX)) {
    throw new Fault(401, `the X-Admin-Token header is malformed; admin tokens start with ${ADMIN_TOKEN_PREFIX}`);
  }
  const hash = hashOf(secret, ADMIN_TOKEN_PREFIX);
  const token = hash === undefined ? undefined : await store.keys.adminTokenByHash(hash);
  if (token === undefined) throw new Fault(401, `this admin token is not valid; ${SEND_ADMIN_TOKEN}`);
  if (now - (token.lastUsedAt ?? 0) >= KEY_USE_WRITTEN_EVERY_MS) await store.keys.noteAdminTokenUse(token.id, now);
  return { actor: { kind: "admin", id: token.id } };
}

/** Whether the request claims to be an administrator's; the token may still be invalid. */
function isAdmin({ headers, client }: Credentials): boolean {
  return client?.isRoot === true || (headers.get("x-admin-token") ?? "") !== "";
}

export async function authenticateVolume(
  { headers, store }: Credentials,
  volumeOf: VolumeOf | undefined,
): Promise<Callers["volume"]> {
  const token = bearerIn(headers);
  if (token === undefined || volumeOf === undefined) {
    throw new Fault(
      401,
      "send Authorization: Bearer and the token that POST /volumes or GET /volumes/{volumeID} answered",
    );
  }
  const volume = await volumeOf(token);
  const team = await store.people.team(volume.teamId);
  if (team?.deletingSince !== null) throw new Fault(403, "the team of this volume is being deleted");
  return { volume };
}

function bearerIn(headers: Headers): string | undefined {
  return /^bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1];
}

/** Some clients send the scheme of the other header along with the secret. */
function withoutScheme(secret: string): string {
  return secret.replace(/^bearer +/i, "");
}

function secretKindOf(secret: string | undefined): "key" | "token" | undefined {
  if (secret?.startsWith(ACCESS_TOKEN_PREFIX)) return "token";
  return secret?.startsWith(API_KEY_PREFIX) ? "key" : undefined;
}
