/**
 * The login of `e2b auth login`: a page to sign in, a page to allow the access, and the redirect to the program that
 * asked for it, with its tokens.
 *
 * Nothing is remembered between the pages. A form holds a signed or sealed token instead, tied to a cookie of the
 * browser, so that no other page can make the browser send it. This matters also for pages of sandboxes, which may be
 * of the same site.
 */
import { z } from "zod";
import { randomHex } from "../../base/random-hex.ts";
import { sha256 } from "../../base/sha256.ts";
import { Fault } from "../../contract/fault.ts";
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import { authenticateBearer } from "../access/authentication.ts";
import { hashOf } from "../access/credentials.ts";
import type { LoginOwner, Logins } from "../access/logins.ts";
import { Passwords, passwordOf } from "../access/passwords.ts";
import { type AuditLog, UNIDENTIFIED, type Visit } from "../audit/audit.ts";
import { LoginBudgets } from "../budgets/login-budgets.ts";
import type { Page, PageRequest } from "../http/page.ts";
import type { Parts } from "../parts.ts";
import { cookieIn, knownBrowser, knownCookie, newCookie } from "./browser-cookies.ts";
import { fieldsOf } from "./form-fields.ts";
import { consentPage, messagePage, pageHeaders, signInPage } from "./login-html.ts";
import type { OidcLogin } from "./oidc-login.ts";
import { requireOwnPage } from "./own-page.ts";
import { returnAddress } from "./return-address.ts";
import { visitOf } from "./visit.ts";

const BROWSER_COOKIE_BYTES = 32;

const SIGN_IN_WITHIN_MS = 60 * 60_000;
const ALLOW_WITHIN_MS = 10 * 60_000;
const ISSUER_RETURNS_WITHIN_MS = 30 * 60_000;
const ISSUER_RETURN_PATH = "/login/oidc/callback";
const COOKIE = "sandlot-login";
const CLIENT_ID = "e2b-cli";
const SHOWN_WHEN_REFUSED = [401, 403, 429, 502, 503];
/** The credentials or the user were rejected. */
const FAILED_LOGIN = [401, 403];

const formClaims = z.object({ browser: z.string(), returnTo: z.string() });
const stateClaims = formClaims.extend({ verifier: z.string(), nonce: z.string() });
const grantClaims = formClaims.extend({
  name: z.string(),
  by: z.string(),
  userId: z.string().optional(),
  apiKey: z.string().optional(),
  /** A digest of the password's hash, or the access token, with which the person signed in. */
  password: z.string().optional(),
  accessToken: z.string().optional(),
});

interface SignedIn {
  owner: LoginOwner;
  /** For people: an email address or the name of a team. */
  name: string;
  /** How the user signed in, for the audit log. */
  by: string;
  /** See the claims of a grant. */
  password?: string;
  accessToken?: string;
  /** A cookie for the browser. */
  cookie?: string | undefined;
}

export class LoginPages {
  readonly #passwords: Passwords;
  readonly #budgets: LoginBudgets;

  constructor(
    private readonly parts: Pick<Parts, "store" | "clock">,
    private readonly logins: Logins,
    private readonly audit: Pick<AuditLog, "noteFailedLogin">,
    private readonly issuer: OidcLogin | undefined,
  ) {
    this.#passwords = new Passwords(parts.store);
    this.#budgets = new LoginBudgets(parts.clock);
  }

  readonly pages: readonly Page[] = [
    htmlPage("GET", "/docs/api/cli", (request, from) => this.#showSignIn(request, from)),
    htmlPage("POST", "/login", (request, from) => this.#signIn(request, from)),
    htmlPage("GET", "/login/oidc", (request, from) => this.#redirectToIssuer(request, from)),
    htmlPage("GET", ISSUER_RETURN_PATH, (request, from) => this.#finishIssuerLogin(request, from)),
    htmlPage("POST", "/login/allow", (request, from) => this.#consent(request, from)),
  ];

  /** Also shows the outcome: the CLI sends the browser back here with `state`. */
  async #showSignIn(request: Request, from: PageRequest): Promise<Response> {
    const search = searchOf(request);
    const outcome = search.get("state");
    if (outcome === "success") return messagePage("Signed in", "You can close this page and return to your terminal.");
    if (outcome !== null)
      return messagePage("Not signed in", "Your terminal shows the reason. You can close this page.");
    const returnTo = returnAddress(search.get("next"));
    const cookie = cookieOf(request, from);
    const browser = cookie ?? randomHex(BROWSER_COOKIE_BYTES);
    const headers = cookie === undefined ? { "Set-Cookie": newCookie(COOKIE, browser, from, SIGN_IN_WITHIN_MS) } : {};
    return this.#signInPage(browser, returnTo, from, { headers });
  }

  async #signInPage(
    browser: string,
    returnTo: string,
    from: PageRequest,
    shown: { status?: number; headers?: Record<string, string>; error?: string },
  ): Promise<Response> {
    const now = this.parts.clock.now();
    const claims = { browser: sha256(browser), returnTo };
    const form = await this.logins.tokens.sign("form", claims, { now, end: now + SIGN_IN_WITHIN_MS });
    const path = pathOf(from);
    const issuer = this.issuer && { name: this.issuer.name, address: `${path}/login/oidc?form=${form}` };
    return signInPage({ path, returnTo, form, issuer, error: shown.error }, shown);
  }

  /** The form that this browser got, or a Fault 403. */
  async #formOf(
    form: string | null,
    request: Request,
    from: PageRequest,
  ): Promise<{ browser: string; returnTo: string }> {
    const claims = await this.logins.tokens.read("form", form ?? "", formClaims, this.parts.clock.now());
    const { browser, returnTo } = ofThisBrowser(claims, request, from);
    return { browser, returnTo };
  }

  async #signIn(request: Request, from: PageRequest): Promise<Response> {
    requireOwnPage(request, from);
    const fields = await this.#fieldsOf(request);
    const form = await this.#formOf(fields.get("form"), request, from);
    return this.#showSignInOnFailure(form, from, async () => {
      const visit = visitOf(from, "POST /login");
      const signIn = () => this.#signedIn(fields, request, from);
      const signedIn = await this.#auditFailedLogin(visit, signIn, () => this.#triedBy(fields));
      return this.#askForConsent(form.browser, form.returnTo, from, signedIn);
    });
  }

  async #redirectToIssuer(request: Request, from: PageRequest): Promise<Response> {
    const issuer = this.#requireIssuer();
    const form = await this.#formOf(searchOf(request).get("form"), request, from);
    return this.#showSignInOnFailure(form, from, async () => {
      this.#budgets.take({ address: from.address });
      const claims = { browser: sha256(form.browser), returnTo: form.returnTo };
      const end = this.parts.clock.now() + ISSUER_RETURNS_WITHIN_MS;
      const address = await issuer.begin(from.base + ISSUER_RETURN_PATH, (secrets) =>
        this.logins.tokens.seal("state", { ...claims, ...secrets }, end),
      );
      return redirect(address.href);
    });
  }

  async #finishIssuerLogin(request: Request, from: PageRequest): Promise<Response> {
    const issuer = this.#requireIssuer();
    const search = searchOf(request);
    const state = search.get("state") ?? "";
    const claims = await this.logins.tokens.open("state", state, stateClaims, this.parts.clock.now());
    const { browser, returnTo, verifier, nonce } = ofThisBrowser(claims, request, from);
    return this.#showSignInOnFailure({ browser, returnTo }, from, async () => {
      this.#budgets.takeReturn(from.address);
      const visit = visitOf(from, `GET ${ISSUER_RETURN_PATH}`);
      const returned = new URL(`${from.base}${ISSUER_RETURN_PATH}?${search}`);
      const by = `the issuer ${issuer.name}`;
      const signIn = () => issuer.finish(returned, { verifier, nonce }, visit);
      const user = await this.#auditFailedLogin(visit, signIn, ({ message }) => `${by}: ${message}`);
      return this.#askForConsent(browser, returnTo, from, { owner: { userId: user.id }, name: user.email, by });
    });
  }

  /** Runs `work`. A failure with one of SHOWN_WHEN_REFUSED shows the sign-in page again, with the reason. */
  async #showSignInOnFailure(
    { browser, returnTo }: { browser: string; returnTo: string },
    from: PageRequest,
    work: () => Promise<Response>,
  ): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Fault) || !SHOWN_WHEN_REFUSED.includes(error.status)) throw error;
      const { status, message, headers } = error;
      return this.#signInPage(browser, returnTo, from, { status, headers, error: message });
    }
  }

  /** A failed login is in the audit log; `tried` names the credentials. */
  async #auditFailedLogin<T>(
    visit: Visit,
    signIn: () => Promise<T>,
    tried: (fault: Fault) => string | Promise<string>,
  ): Promise<T> {
    try {
      return await signIn();
    } catch (error) {
      const fault = Fault.from(error);
      if (FAILED_LOGIN.includes(fault.status)) {
        const about = { object: await tried(fault), status: fault.status };
        this.audit.noteFailedLogin({ ...visit, actor: UNIDENTIFIED }, about);
      }
      throw error;
    }
  }

  /** Never the text of an unknown user: it may be a password in the wrong field. */
  async #triedBy(fields: URLSearchParams): Promise<string> {
    const secret = fields.get("secret")?.trim();
    if (secret !== undefined) return secret.startsWith(API_KEY_PREFIX) ? "an API key" : "an access token";
    const user = await this.parts.store.people.userByEmail((fields.get("email") ?? "").trim().toLowerCase());
    return user === undefined ? "a password of an unknown user" : passwordOf(user);
  }

  #requireIssuer(): OidcLogin {
    if (this.issuer !== undefined) return this.issuer;
    throw new Fault(404, "This server has no OpenID Connect issuer.");
  }

  /** Fault 401. The message does not reveal which of the two was wrong. */
  async #signedIn(fields: URLSearchParams, request: Request, from: PageRequest): Promise<SignedIn> {
    const { store } = this.parts;
    const secret = fields.get("secret")?.trim();
    if (secret === undefined) {
      const email = (fields.get("email") ?? "").trim();
      const [now, { tokens }] = [this.parts.clock.now(), this.logins];
      const browser = await knownBrowser(tokens, email, { request, from, now });
      this.#budgets.take({ address: from.address, email, browser });
      const isKnown = browser !== undefined;
      const found = await this.#passwords.userOf(email, fields.get("password") ?? "", { isKnown });
      if (found === undefined) throw new Fault(401, "The email address or the password is wrong.");
      const { user, hash } = found;
      const cookie = browser === undefined ? await knownCookie(tokens, user.email, { from, now }) : undefined;
      return { owner: { userId: user.id }, name: user.email, by: "a password", password: sha256(hash), cookie };
    }
    this.#budgets.take({ address: from.address });
    if (secret.startsWith(API_KEY_PREFIX)) {
      const { team } = await this.logins.keyOf(secret);
      return { owner: { apiKey: secret }, name: `team ${team.name}`, by: "an API key" };
    }
    // Not the token of a login: it is valid for an hour, and must not begin a login of 90 days.
    if (!secret.startsWith(ACCESS_TOKEN_PREFIX) || /\s/.test(secret)) {
      throw new Fault(401, "This is neither an access token (sk_e2b_…) nor an API key (e2b_…).");
    }
    const headers = new Headers({ Authorization: `Bearer ${secret}` });
    const { userId } = await authenticateBearer({ headers, store, logins: this.logins });
    const user = await store.people.user(userId);
    if (user === undefined) throw new Fault(401, "The user of this access token was deleted.");
    return { owner: { userId }, name: user.email, by: "an access token", accessToken: secret };
  }

  async #askForConsent(browser: string, returnTo: string, from: PageRequest, signedIn: SignedIn) {
    const { owner, name, by, password, accessToken, cookie } = signedIn;
    const claims = { browser: sha256(browser), returnTo, name, by, password, accessToken, ...owner };
    const grant = await this.logins.tokens.seal("grant", claims, this.parts.clock.now() + ALLOW_WITHIN_MS);
    const page = await consentPage({ path: pathOf(from), returnTo, name, grant });
    if (cookie !== undefined) page.headers.append("Set-Cookie", cookie);
    return page;
  }

  /** What the person signed in with may have been revoked or changed while the page to allow the access was open. */
  async #isStillValid({ userId = "", password, accessToken }: z.infer<typeof grantClaims>): Promise<boolean> {
    const { logins, keys, people } = this.parts.store;
    if (password !== undefined) return sha256((await logins.passwordHash(userId)) ?? "") === password;
    if (accessToken === undefined) return (await people.user(userId)) !== undefined;
    return (await keys.accessTokenByHash(hashOf(accessToken, ACCESS_TOKEN_PREFIX) ?? "")) !== undefined;
  }

  async #consent(request: Request, from: PageRequest): Promise<Response> {
    requireOwnPage(request, from);
    const fields = await this.#fieldsOf(request);
    const grant = fields.get("grant") ?? "";
    const opened = await this.logins.tokens.open("grant", grant, grantClaims, this.parts.clock.now());
    const claims = ofThisBrowser(opened, request, from);
    const { returnTo, name, by, userId, apiKey } = claims;
    if (fields.get("decision") !== "allow") return redirect(withValues(returnTo, { error: "access_denied" }));
    const owner = userId === undefined ? { apiKey: apiKey ?? "" } : { userId };
    if (userId !== undefined && !(await this.#isStillValid(claims))) {
      throw new Fault(401, "The user, the password or the access token was changed or deleted. Sign in again.");
    }
    const { accessToken, refreshToken } = await this.logins.begin(owner, visitOf(from, "POST /login/allow", 303), by);
    const values = {
      email: name,
      accessToken,
      refreshToken,
      tokenEndpoint: `${from.base}/oauth/token`,
      revokeEndpoint: `${from.base}/oauth/revoke`,
      clientId: CLIENT_ID,
    };
    return redirect(withValues(returnTo, values));
  }

  #fieldsOf(request: Request): Promise<URLSearchParams> {
    return fieldsOf(request, this.parts.clock);
  }
}

function htmlPage(method: Page["method"], path: string, answer: Page["answer"]): Page {
  const refuse = ({ status, message, headers }: Fault) =>
    messagePage("This did not work", message, { status, headers });
  return { method, path, answer, refuse };
}

/** The claims of a token, with the cookie of the browser that it was made for; for another browser a Fault 403. */
function ofThisBrowser<T extends { browser: string }>(claims: T | string, request: Request, from: PageRequest): T {
  const browser = cookieOf(request, from);
  if (typeof claims !== "string" && browser !== undefined && claims.browser === sha256(browser)) {
    return { ...claims, browser };
  }
  throw new Fault(403, "This page is too old, or your browser sent no cookie. Open the address of the login again.");
}

function redirect(to: string): Response {
  return new Response(null, { status: 303, headers: { ...pageHeaders(), Location: to, "Content-Length": "0" } });
}

function withValues(address: string, values: Record<string, string>): string {
  const url = new URL(address);
  url.search = new URLSearchParams(values).toString();
  return url.href;
}

function searchOf({ url }: Request): URLSearchParams {
  return new URL(url, "http://localhost").searchParams;
}

/** The path at which the server begins. */
function pathOf({ base }: PageRequest): string {
  return new URL(base).pathname.replace(/\/$/, "");
}

function cookieOf(request: Request, from: PageRequest): string | undefined {
  const value = cookieIn(request, COOKIE, from);
  return value !== undefined && /^[0-9a-f]{64}$/.test(value) ? value : undefined;
}
