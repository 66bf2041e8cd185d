/**
 * Logins: a client that signed in gets an access token for an hour and a refresh token, which it exchanges for the next
 * pair. A refresh token is valid once; its second use ends the login, because one of the two senders has a stolen
 * token. A login ends at the latest after 90 days, and at once when it is revoked, or its user or API key is deleted.
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import type { Login } from "../../store/logins.ts";
import type { Team } from "../../store/people.ts";
import { type Actor, type AuditLog, record, type Visit } from "../audit/audit.ts";
import type { Parts } from "../parts.ts";
import { hashOf } from "./credentials.ts";
import { LoginTokens } from "./login-tokens.ts";

export const LOGIN_MS = 90 * 24 * 60 * 60_000;
export const LOGIN_ACCESS_MS = 60 * 60_000;
/** Clients that lost a response, or that refresh twice at once, get the same pair again for this long. */
export const REFRESH_REPEATED_WITHIN_MS = 30_000;
/** Maximum per user or API key; a further login ends the oldest. */
export const LOGINS_PER_OWNER_MAX = 100;

const accessClaims = z.object({ sid: z.uuid() });
const refreshClaims = z.object({ sid: z.uuid(), generation: z.int().nonnegative() });
const keyClaims = z.object({ key: z.string() });

/** A user, or an API key itself. */
export type LoginOwner = { userId: string } | { apiKey: string };
/** An API key opens only its team; as a login it gets no right beyond that. */
export type LoginCaller = { userId: string } | { team: Team; apiKey: string; keyId: string };

interface TokenPair {
  accessToken: string;
  refreshToken: string;
  expiresInSeconds: number;
}

export class Logins {
  readonly tokens: LoginTokens;

  constructor(
    private readonly parts: Pick<Parts, "store" | "clock" | "ids" | "log">,
    private readonly audit: Pick<AuditLog, "note" | "noteRecorded">,
    secret: Uint8Array,
  ) {
    this.tokens = new LoginTokens(secret);
  }

  /** `by` says how the owner signed in. Fault 401 when the API key has been revoked meanwhile. */
  async begin(owner: LoginOwner, visit: Visit, by: string): Promise<TokenPair> {
    const { store, clock, ids } = this.parts;
    const now = clock.now();
    const base = { id: ids.uuid(), generation: 0, rotatedAt: now, createdAt: now };
    const login: Login =
      "userId" in owner
        ? { ...base, userId: owner.userId, apiKeyId: null, sealedKey: null }
        : {
            ...base,
            userId: null,
            apiKeyId: (await this.keyOf(owner.apiKey)).keyId,
            sealedKey: await this.tokens.seal("key", { key: owner.apiKey }, now + LOGIN_MS),
          };
    const { actor, teamId } = await this.#actorOf(login);
    const origin = { ...visit, actor };
    await store.transaction(async (tables) => {
      await tables.logins.removeBeyond(login, LOGINS_PER_OWNER_MAX - 1);
      await tables.logins.add(login);
      await record(tables, { clock, ids, origin }, { teamId, object: `login ${login.id} with ${by}` });
    });
    this.audit.noteRecorded(origin, teamId);
    return this.#pair(login);
  }

  /** Undefined: the token is invalid or expired. */
  async refresh(refreshToken: string, visit: Visit): Promise<TokenPair | undefined> {
    const { store, clock, log } = this.parts;
    const now = clock.now();
    const claims = await this.tokens.read("refresh", refreshToken, refreshClaims, now);
    if (typeof claims === "string") return undefined;
    const { sid: id, generation } = claims;
    const isRotated = await store.logins.rotate({ id, generation }, now);
    const login = await this.#found(id);
    if (login !== undefined && isRotated) await this.#note(login, visit, `login ${id}`, 200);
    if (login === undefined || generation >= login.generation) return undefined;
    const isLast = generation === login.generation - 1;
    if (isLast && now - login.rotatedAt <= REFRESH_REPEATED_WITHIN_MS) return this.#pair(login);
    await this.#note(login, visit, `login ${id}, which ended: a refresh token was used twice`, 400);
    await store.logins.remove(id);
    log.write({ level: "warn", event: "login ended: a refresh token was used twice", login: id });
    return undefined;
  }

  /** Ends the login of an access or refresh token. Any other token has none, so nothing remains to be done. */
  async revoke(token: string, visit: Visit): Promise<void> {
    const { store, clock } = this.parts;
    for (const purpose of ["refresh", "access"]) {
      const claims = await this.tokens.read(purpose, token, accessClaims, clock.now());
      const login = typeof claims === "string" ? undefined : await this.#found(claims.sid);
      if (login === undefined) continue;
      await this.#note(login, visit, `login ${login.id}`, 200);
      await store.logins.remove(login.id);
    }
  }

  /** Fault 401 for an invalid or expired access token. */
  async callerOf(accessToken: string): Promise<LoginCaller> {
    const now = this.parts.clock.now();
    const claims = await this.tokens.read("access", accessToken, accessClaims, now);
    if (claims === "expired") throw new Fault(401, "this access token has expired; refresh it, or log in again");
    if (claims === "invalid") throw new Fault(401, "this access token is not valid; log in again");
    const login = await this.#found(claims.sid);
    if (login === undefined) throw new Fault(401, "this login has ended; log in again");
    if (login.userId !== null) return { userId: login.userId };
    const sealed = await this.tokens.open("key", login.sealedKey ?? "", keyClaims, now);
    if (typeof sealed === "string") throw new Fault(401, "this login cannot be read any more; log in again");
    return { ...(await this.keyOf(sealed.key)), apiKey: sealed.key };
  }

  /** Fault 401 for a key that is not valid. */
  async keyOf(apiKey: string): Promise<{ keyId: string; team: Team }> {
    const hash = apiKey.startsWith(API_KEY_PREFIX) ? hashOf(apiKey, API_KEY_PREFIX) : undefined;
    const found = hash === undefined ? undefined : await this.parts.store.keys.apiKeyByHash(hash);
    if (found === undefined) throw new Fault(401, "this API key is not valid; no team has it");
    if (found.team.deletingSince !== null) throw new Fault(401, "the team of this API key is being deleted");
    return { keyId: found.key.id, team: found.team };
  }

  async #note(login: Login, visit: Visit, object: string, status: number): Promise<void> {
    const { actor, teamId } = await this.#actorOf(login);
    this.audit.note({ ...visit, actor }, { teamId, object, status });
  }

  async #actorOf({ userId, apiKeyId }: Login): Promise<{ actor: Actor; teamId: string | null }> {
    if (userId !== null) return { actor: { kind: "user", id: userId }, teamId: null };
    const teamId = (await this.parts.store.keys.teamOfApiKey(apiKeyId ?? "")) ?? null;
    return { actor: { kind: "key", id: apiKeyId }, teamId };
  }

  async #found(id: string): Promise<Login | undefined> {
    const { store, clock } = this.parts;
    return store.logins.byId(id, clock.now() - LOGIN_MS);
  }

  async #pair({ id, generation, createdAt }: Login): Promise<TokenPair> {
    const now = this.parts.clock.now();
    const last = createdAt + LOGIN_MS;
    const end = Math.min(now + LOGIN_ACCESS_MS, last);
    return {
      accessToken: await this.tokens.sign("access", { sid: id }, { now, end }),
      refreshToken: await this.tokens.sign("refresh", { sid: id, generation }, { now, end: last }),
      expiresInSeconds: Math.max(0, Math.floor((end - now) / 1000)),
    };
  }
}
