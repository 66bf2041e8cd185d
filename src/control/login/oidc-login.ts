/**
 * Login with an OpenID Connect issuer that the operator names: authorization code with PKCE, state and nonce, by
 * openid-client, which checks everything that the issuer returns. The user is the one with the verified email address.
 */
import type * as OpenIdClient from "openid-client";
import { described } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { User } from "../../store/people.ts";
import { createUser, OPERATOR_EMAIL, teamNamed } from "../access/people.ts";
import type { Origin, Visit } from "../audit/audit.ts";
import type { Parts } from "../parts.ts";

/** Settings of the issuer. */
export interface OidcSettings {
  issuer: string;
  clientId: string;
  /** Absent: a public client, which PKCE alone protects. */
  clientSecret?: string | undefined;
  /** Domains of email addresses that may log in. Empty: any. */
  domains: readonly string[];
  /** The team that a new user joins. Absent: only existing users may log in. */
  team?: string | undefined;
}

/** Values that only this server and the issuer know, until the browser returns. */
interface OidcSecrets {
  verifier: string;
  nonce: string;
}

/** Timeout of one request to the issuer; a login sends up to four. */
const ISSUER_WITHIN_MS = 5_000;
const ISSUER_RESPONSE_MAX_BYTES = 512 * 1024;
/** Logins that ask the issuer at the same time. */
export const ISSUER_LOGINS_AT_ONCE = 8;
/** The issuer's addresses and keys are read again after this time. */
const ISSUER_KNOWN_MS = 60 * 60_000;
const SCOPE = "openid email";

export class OidcLogin {
  /** The issuer's name on the page. */
  readonly name: string;
  #known: { until: number; configuration: Promise<OpenIdClient.Configuration> } | undefined;
  #asking = 0;

  constructor(
    private readonly parts: Pick<Parts, "store" | "clock" | "ids" | "log">,
    private readonly settings: OidcSettings,
    private readonly withinMs = ISSUER_WITHIN_MS,
  ) {
    this.name = new URL(settings.issuer).host;
  }

  /** The issuer's page to which the browser goes. `stateOf` packs the secrets into the state that comes back. */
  begin(redirectUri: string, stateOf: (secrets: OidcSecrets) => Promise<string>): Promise<URL> {
    return this.#asked(async (client, configuration) => {
      const secrets = { verifier: client.randomPKCECodeVerifier(), nonce: client.randomNonce() };
      return client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: SCOPE,
        code_challenge: await client.calculatePKCECodeChallenge(secrets.verifier),
        code_challenge_method: "S256",
        state: await stateOf(secrets),
        nonce: secrets.nonce,
      });
    });
  }

  /** The user that signed in at the issuer. Fault 401 or 403 when the issuer or the settings reject the login. */
  async finish(returned: URL, { verifier, nonce }: OidcSecrets, visit: Visit): Promise<User> {
    const email = await this.#asked(async (client, configuration) => {
      const tokens = await client.authorizationCodeGrant(configuration, returned, {
        pkceCodeVerifier: verifier,
        expectedNonce: nonce,
        expectedState: returned.searchParams.get("state") ?? "",
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims?.email !== undefined) return verified(claims);
      return verified(await client.fetchUserInfo(configuration, tokens.access_token, claims?.sub ?? ""));
    });
    return this.#userOf(email, visit);
  }

  async #userOf(email: string, visit: Visit): Promise<User> {
    const { domains, team: slug } = this.settings;
    const domain = email.slice(email.lastIndexOf("@") + 1);
    if ((domains.length > 0 && !domains.includes(domain)) || email === OPERATOR_EMAIL) {
      throw new Fault(403, `Users of ${domain} may not sign in with ${this.name}.`);
    }
    const { store } = this.parts;
    const user = await store.people.userByEmail(email);
    if (user !== undefined) return user;
    if (slug === undefined) {
      throw new Fault(
        403,
        `This server has no user ${email}. Ask its operator for: sandlot users create ${email} TEAM`,
      );
    }
    const team = await teamNamed(store, slug).catch((cause: unknown) => {
      throw new Fault(503, "New users cannot be created: the operator's setting names no team.", { cause });
    });
    const origin: Origin = { ...visit, actor: { kind: "server", id: null } };
    return createUser({ ...this.parts, origin }, { email, teamIds: [team.id] });
  }

  async #asked<T>(
    work: (client: typeof OpenIdClient, configuration: OpenIdClient.Configuration) => Promise<T>,
  ): Promise<T> {
    if (this.#asking >= ISSUER_LOGINS_AT_ONCE) {
      throw new Fault(503, `Too many people sign in with ${this.name}; try again in a moment.`, {
        retryAfterSeconds: 5,
      });
    }
    this.#asking++;
    // Most servers name no issuer, so the library is loaded only here.
    const client = await import("openid-client");
    try {
      return await work(client, await this.#configuration(client));
    } catch (cause) {
      if (cause instanceof Fault) throw cause;
      if (cause instanceof client.AuthorizationResponseError) {
        throw new Fault(401, `${this.name} did not sign you in.`, { cause });
      }
      const [event, error] = ["a login with the issuer failed", described(cause)];
      this.parts.log.write({ level: "warn", event, issuer: this.settings.issuer, error });
      throw new Fault(502, `${this.name} could not be asked, or its response is not valid; try again.`);
    } finally {
      this.#asking--;
    }
  }

  /** A failed attempt is forgotten, so that the next login tries again. */
  async #configuration(client: typeof OpenIdClient): Promise<OpenIdClient.Configuration> {
    const now = this.parts.clock.now();
    if (this.#known === undefined || this.#known.until <= now) {
      this.#known = { until: now + ISSUER_KNOWN_MS, configuration: this.#discover(client) };
    }
    const known = this.#known;
    try {
      return await known.configuration;
    } catch (error) {
      if (this.#known === known) this.#known = undefined;
      throw error;
    }
  }

  #discover(client: typeof OpenIdClient): Promise<OpenIdClient.Configuration> {
    const { issuer, clientId, clientSecret } = this.settings;
    const authentication = clientSecret === undefined ? client.None() : client.ClientSecretBasic(clientSecret);
    const url = new URL(issuer);
    return client.discovery(url, clientId, undefined, authentication, {
      // The settings take http: only for loopback addresses.
      execute: [client.enableNonRepudiationChecks, ...(url.protocol === "http:" ? [client.allowInsecureRequests] : [])],
      timeout: this.withinMs / 1000,
      [client.customFetch]: boundedFetch,
    });
  }
}

/** Fault 403 unless the issuer has verified the address. */
function verified({ email, email_verified: isVerified }: Record<string, unknown>): string {
  if (typeof email !== "string") throw new Fault(403, "The issuer returned no email address for you.");
  if (isVerified !== true) throw new Fault(403, "The issuer has not verified your email address.");
  const lower = email.toLowerCase();
  // Some letters, such as the Kelvin sign, turn into one of ASCII, and so the address into that of somebody else.
  if (lower === email.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())) return lower;
  throw new Fault(403, "The issuer returned an email address with capital letters beyond A to Z.");
}

/** Follows no redirect, and reads no more than the bound. */
const boundedFetch: OpenIdClient.CustomFetch = async (url, options) => {
  const response = await fetch(url, options as RequestInit);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > ISSUER_RESPONSE_MAX_BYTES)
      throw new Error(`the response has more than ${ISSUER_RESPONSE_MAX_BYTES} bytes`);
    parts.push(chunk);
  }
  const { status, headers } = response;
  return new Response([204, 304].includes(status) ? null : Buffer.concat(parts), { status, headers });
};
