/**
 * Tokens of logins, made and read with one secret: signed ones (JWS, HS256), whose content clients may read, and sealed
 * ones (JWE, A256GCM), whose content only this server reads. Every token says what it is for and is read for nothing
 * else.
 */
import { createHmac } from "node:crypto";
import { EncryptJWT, errors, type JWTPayload, jwtDecrypt, jwtVerify, SignJWT } from "jose";
import type { z } from "zod";

const ISSUER = "sandlot";
/** Longer tokens are rejected unread; tokens of this server have less than half this length. */
const LOGIN_TOKEN_MAX_CHARS = 8192;

export class LoginTokens {
  readonly #signing: Uint8Array;
  readonly #sealing: Uint8Array;

  /** `secret` lies outside the store, so that a copy of the store opens nothing. */
  constructor(secret: Uint8Array) {
    this.#signing = createHmac("sha256", secret).update("sign tokens of logins").digest();
    this.#sealing = createHmac("sha256", secret).update("seal tokens of logins").digest();
  }

  /** Times are in milliseconds; a token has them in whole seconds. */
  sign(purpose: string, claims: JWTPayload, times: { now: number; end: number }): Promise<string> {
    return new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setIssuer(ISSUER)
      .setAudience(purpose)
      .setIssuedAt(Math.floor(times.now / 1000))
      .setExpirationTime(Math.floor(times.end / 1000))
      .sign(this.#signing);
  }

  seal(purpose: string, claims: JWTPayload, end: number): Promise<string> {
    return new EncryptJWT(claims)
      .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
      .setIssuer(ISSUER)
      .setAudience(purpose)
      .setExpirationTime(Math.floor(end / 1000))
      .encrypt(this.#sealing);
  }

  /** The claims of a signed token; `expired` if it is otherwise valid; else `invalid`. */
  async read<C extends z.ZodType>(
    purpose: string,
    token: string,
    claims: C,
    now: number,
  ): Promise<z.output<C> | "invalid" | "expired"> {
    return this.#checked(token, claims, () =>
      jwtVerify(token, this.#signing, { ...expected(purpose, now), algorithms: ["HS256"] }),
    );
  }

  /** As `read`, for a sealed token. */
  async open<C extends z.ZodType>(
    purpose: string,
    token: string,
    claims: C,
    now: number,
  ): Promise<z.output<C> | "invalid" | "expired"> {
    const algorithms = { keyManagementAlgorithms: ["dir"], contentEncryptionAlgorithms: ["A256GCM"] };
    return this.#checked(token, claims, () =>
      jwtDecrypt(token, this.#sealing, { ...expected(purpose, now), ...algorithms }),
    );
  }

  async #checked<C extends z.ZodType>(
    token: string,
    claims: C,
    read: () => Promise<{ payload: JWTPayload }>,
  ): Promise<z.output<C> | "invalid" | "expired"> {
    if (token.length > LOGIN_TOKEN_MAX_CHARS) return "invalid";
    try {
      const parsed = claims.safeParse((await read()).payload);
      return parsed.success ? parsed.data : "invalid";
    } catch (error) {
      if (error instanceof errors.JWTExpired) return "expired";
      if (error instanceof errors.JOSEError) return "invalid";
      throw error;
    }
  }
}

function expected(purpose: string, now: number) {
  return { issuer: ISSUER, audience: purpose, currentDate: new Date(now), requiredClaims: ["exp"] };
}
