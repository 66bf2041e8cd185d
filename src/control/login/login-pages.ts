/**
 * The login of `e2b auth login`: a page to sign in, a page to allow the access, and the redirect to the program that
 * asked for it, with its tokens. Then the OAuth endpoints for these tokens (RFC 6749, section 6, and RFC 7009).
 *
 * Nothing is remembered between the pages. A form holds a signed or sealed token instead, tied to a cookie of the
 * browser, so that no other page can make the browser send it. This matters also for pages of sandboxes, which may be
 * of the same site.
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import { authenticateBearer } from "../access/authentication.ts";
import type { LoginOwner, Logins, TokenPair } from "../access/logins.ts";
import { Passwords } from "../access/passwords.ts";
import type { Page, PageRequest } from "../http/page.ts";
import { readForm } from "../http/request-body.ts";
import type { Parts } from "../parts.ts";
import { LoginBudgets } from "./login-budgets.ts";
import { consentPage, messagePage, pageHeaders, signInPage } from "./login-html.ts";
import { returnAddress } from "./return-address.ts";

const FORM_MAX_BYTES = 16 * 1024;
const SIGN_IN_WITHIN_MS = 60 * 60_000;
const ALLOW_WITHIN_MS = 10 * 60_000;
const COOKIE = "sandlot-login";
const CLIENT_ID = "e2b-cli";

const formClaims = z.object({ browser: z.string(), returnTo: z.string() });
const grantClaims = formClaims.extend({
  name: z.string(),
  userId: z.string().optional(),
  apiKey: z.string().optional(),
});

interface SignedIn {
  owner: LoginOwner;
  /** For people: an email address or the name of a team. */
  name: string;
}

export class LoginPages {
  readonly #passwords: Passwords;
  readonly #budgets: LoginBudgets;

  constructor(
    private readonly parts: Pick<Parts, "store" | "clock">,
    private readonly logins: Logins,
  ) {
    this.#passwords = new Passwords(parts.store);
    this.#budgets = new LoginBudgets(parts.clock);
  }

  readonly pages: readonly Page[] = [
    html("GET", "/docs/api/cli", (request, from) => this.#begin(request, from)),
    html("POST", "/login", (request, from) => this.#signIn(request, from)),
    html("POST", "/login/allow", (request, from) => this.#decide(request, from)),
    oauth("/oauth/token", (request) => this.#refresh(request)),
    oauth("/oauth/revoke", (request) => this.#revoke(request)),
  ];

  /** Also shows the outcome, for which the CLI returns the browser to the address that it opened. */
  async #begin(request: Request, from: PageRequest): Promise<Response> {
    const search = new URL(request.url, "http://localhost").searchParams;
    const outcome = search.get("state");
    if (outcome === "success") return messagePage("Signed in", "You can close this page and return to your terminal.");
    if (outcome !== null)
      return messagePage("Not signed in", "Your terminal shows the reason. You can close this page.");
    const returnTo = returnAddress(search.get("next"));
    const cookie = cookieOf(request, from);
    const browser = cookie ?? crypto.getRandomValues(new Uint8Array(32)).toHex();
    const headers = cookie === undefined ? { "Set-Cookie": newCookie(browser, from) } : {};
    return this.#signInPage(browser, returnTo, from, { headers });
  }

  async #signInPage(
    browser: string,
    returnTo: string,
    from: PageRequest,
    shown: { status?: number; headers?: Record<string, string>; error?: string },
  ): Promise<Response> {
    const now = this.parts.clock.now();
    const claims = { browser: digest(browser), returnTo };
    const form = await this.logins.tokens.sign("form", claims, { now, end: now + SIGN_IN_WITHIN_MS });
    return signInPage({ path: pathOf(from), returnTo, form, error: shown.error }, shown);
  }

  async #signIn(request: Request, from: PageRequest): Promise<Response> {
    const fields = await this.#fieldsOf(request);
    const { tokens } = this.logins;
    const claims = await tokens.read("form", fields.get("form") ?? "", formClaims, this.parts.clock.now());
    const browser = cookieOf(request, from);
    if (typeof claims === "string" || browser === undefined || claims.browser !== digest(browser)) throw foreignForm();
    const { returnTo } = claims;
    try {
      return await this.#askForConsent(browser, returnTo, from, await this.#signedIn(fields, from));
    } catch (error) {
      if (!(error instanceof Fault) || ![401, 429, 503].includes(error.status)) throw error;
      const { status, message, headers } = error;
      return this.#signInPage(browser, returnTo, from, { status, headers, error: message });
    }
  }

  /** Fault 401, without a word on which of the two was wrong. */
  async #signedIn(fields: URLSearchParams, from: PageRequest): Promise<SignedIn> {
    const { store } = this.parts;
    const secret = fields.get("secret")?.trim();
    if (secret === undefined) {
      const email = (fields.get("email") ?? "").trim();
      this.#budgets.take(from.address, email);
      const user = await this.#passwords.userOf(email, fields.get("password") ?? "");
      if (user === undefined) throw new Fault(401, "The email address or the password is wrong.");
      return { owner: { userId: user.id }, name: user.email };
    }
    this.#budgets.take(from.address);
    if (secret.startsWith(API_KEY_PREFIX)) {
      const { team } = await this.logins.keyOf(secret);
      return { owner: { apiKey: secret }, name: `team ${team.name}` };
    }
    const headers = new Headers({ Authorization: `Bearer ${/^\S+$/.test(secret) ? secret : ""}` });
    const { userId } = await authenticateBearer({ headers, store, logins: this.logins });
    const user = await store.people.user(userId);
    if (user === undefined) throw new Fault(401, "The user of this access token was deleted.");
    return { owner: { userId }, name: user.email };
  }

  async #askForConsent(browser: string, returnTo: string, from: PageRequest, { owner, name }: SignedIn) {
    const claims = { browser: digest(browser), returnTo, name, ...owner };
    const grant = await this.logins.tokens.seal("grant", claims, this.parts.clock.now() + ALLOW_WITHIN_MS);
    return consentPage({ path: pathOf(from), returnTo, name, grant });
  }

  async #decide(request: Request, from: PageRequest): Promise<Response> {
    const fields = await this.#fieldsOf(request);
    const grant = fields.get("grant") ?? "";
    const claims = await this.logins.tokens.open("grant", grant, grantClaims, this.parts.clock.now());
    const browser = cookieOf(request, from);
    if (typeof claims === "string" || browser === undefined || claims.browser !== digest(browser)) throw foreignForm();
    const { returnTo, name, userId, apiKey } = claims;
    if (fields.get("decision") !== "allow") return redirect(returnTo, { error: "access_denied" });
    const owner = userId === undefined ? { apiKey: apiKey ?? "" } : { userId };
    if ("userId" in owner && (await this.parts.store.people.user(owner.userId)) === undefined) {
      throw new Fault(401, "this user was deleted");
    }
    const { accessToken, refreshToken } = await this.logins.begin(owner);
    return redirect(returnTo, {
      email: name,
      accessToken,
      refreshToken,
      tokenEndpoint: `${from.base}/oauth/token`,
      revokeEndpoint: `${from.base}/oauth/revoke`,
      clientId: CLIENT_ID,
    });
  }

  async #refresh(request: Request): Promise<Response> {
    const fields = await this.#fieldsOf(request);
    if (fields.get("grant_type") !== "refresh_token") throw oauthFault("unsupported_grant_type", "use refresh_token");
    const pair: TokenPair | undefined = await this.logins.refresh(fields.get("refresh_token") ?? "");
    if (pair === undefined) throw oauthFault("invalid_grant", "this refresh token is not valid any more; log in again");
    const { accessToken, refreshToken, expiresInSeconds } = pair;
    const body = { access_token: accessToken, refresh_token: refreshToken, expires_in: expiresInSeconds };
    return Response.json({ token_type: "Bearer", ...body }, { headers: NO_STORE });
  }

  /** Success also for a token that is not valid: the standard requires it. */
  async #revoke(request: Request): Promise<Response> {
    const token = (await this.#fieldsOf(request)).get("token");
    if (token === null) throw oauthFault("invalid_request", "send the field token");
    await this.logins.revoke(token);
    return new Response(null, { status: 200, headers: { ...NO_STORE, "Content-Length": "0" } });
  }

  #fieldsOf(request: Request): Promise<URLSearchParams> {
    return readForm(request, { maxBytes: FORM_MAX_BYTES, clock: this.parts.clock, take: () => undefined });
  }
}

const NO_STORE = { "Cache-Control": "no-store", Pragma: "no-cache" };

function html(method: Page["method"], path: string, answer: Page["answer"]): Page {
  const refuse = ({ status, message, headers }: Fault) =>
    messagePage("This did not work", message, { status, headers });
  return { method, path, answer, refuse };
}

/** The error codes of RFC 6749, section 5.2. */
function oauth(path: string, answer: Page["answer"]): Page {
  const refuse = ({ status, message, headers, errorCode }: Fault) => {
    const error = errorCode ?? (status >= 500 ? "server_error" : "invalid_request");
    return Response.json({ error, error_description: message }, { status, headers: { ...NO_STORE, ...headers } });
  };
  return { method: "POST", path, answer, refuse };
}

function oauthFault(errorCode: string, message: string): Fault {
  return new Fault(400, message, { errorCode });
}

function foreignForm(): Fault {
  return new Fault(403, "This page is too old, or your browser sent no cookie. Open the address of the login again.");
}

function redirect(to: string, values: Record<string, string>): Response {
  const address = new URL(to);
  address.search = new URLSearchParams(values).toString();
  return new Response(null, {
    status: 303,
    headers: { ...pageHeaders(), Location: address.href, "Content-Length": "0" },
  });
}

/** The path at which the server begins. */
function pathOf({ base }: PageRequest): string {
  return new URL(base).pathname.replace(/\/$/, "");
}

/** With the prefix, no neighbouring host name can set the cookie. */
function cookieName({ base }: PageRequest): string {
  return base.startsWith("https:") ? `__Host-${COOKIE}` : COOKIE;
}

function newCookie(value: string, from: PageRequest): string {
  const secure = from.base.startsWith("https:") ? "; Secure" : "";
  return `${cookieName(from)}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${SIGN_IN_WITHIN_MS / 1000}${secure}`;
}

function cookieOf(request: Request, from: PageRequest): string | undefined {
  const all = (request.headers.get("cookie") ?? "").split(/; */);
  const value = all.find((each) => each.startsWith(`${cookieName(from)}=`))?.split("=")[1];
  return value !== undefined && /^[0-9a-f]{64}$/.test(value) ? value : undefined;
}

function digest(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
