/** The login of `e2b auth login` as a browser and the CLI see it, without either. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createAccessToken } from "../access/keys.ts";
import { LOGIN_ACCESS_MS, LOGIN_MS, LOGINS_PER_OWNER_MAX, REFRESH_REPEATED_WITHIN_MS } from "../access/logins.ts";
import { PASSWORD_MAX_CHARS, PASSWORD_MIN_CHARS, removePassword, setPassword } from "../access/passwords.ts";
import { createUser, userNamed } from "../access/people.ts";
import { AUDIT_WRITTEN_EVERY_MS, FAILED_LOGINS_AT_ONCE, FAILED_LOGINS_PER_MINUTE } from "../audit/audit.ts";
import {
  EMAIL_TRIES_AT_ONCE,
  EMAIL_TRIES_PER_MINUTE,
  LOGIN_TRIES_AT_ONCE,
  LOGIN_TRIES_PER_MINUTE,
} from "../budgets/login-budgets.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { Browser } from "../testing/login-browser.ts";

const NEXT = "http://localhost:21199";
const PASSWORD = "correct horse battery";
const EMAIL = "ada@example.com";

let fixture: ControlFixture;
let browser: Browser;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  const team = await fixture.store.people.teamBySlug("default");
  await createUser(fixture, { email: EMAIL, teamIds: [team?.id ?? ""] });
  browser = new Browser(fixture.control);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const user = () => userNamed(fixture.store, EMAIL);
/** Hashed with little work, which checking it then takes too. */
const HASH = Bun.password.hashSync(PASSWORD, { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
const withPassword = async () => fixture.store.logins.setPassword((await user()).id, HASH, fixture.clock.now());
const token = async () => (await createAccessToken(fixture, { userId: (await user()).id, name: "t" })).secret;

/** The tokens that the CLI would get. */
async function login(fields: Record<string, string>): Promise<Record<string, string>> {
  await browser.open(`/docs/api/cli?next=${NEXT}`);
  expect((await browser.submit("/login", fields)).status).toBe(200);
  const { status, headers } = await browser.submit("/login/allow", { decision: "allow" });
  expect(status).toBe(303);
  const address = new URL(headers.get("location") ?? "");
  expect(address.origin).toBe(NEXT);
  return Object.fromEntries(address.searchParams);
}

const form = (path: string, fields: Record<string, string>) =>
  fixture.control.handle(new Request(`http://localhost${path}`, { method: "POST", body: new URLSearchParams(fields) }));
const refresh = async (
  token = "",
): Promise<Record<string, unknown> & Partial<Record<"access_token" | "refresh_token" | "error", string>>> => {
  const response = await form("/oauth/token", { grant_type: "refresh_token", refresh_token: token });
  return { ...(await response.json()), status: response.status };
};
const bearer = (path: string, token = "", headers: Record<string, string> = {}) =>
  fixture.control.handle(
    new Request(`http://localhost${path}`, { headers: { Authorization: `Bearer ${token}`, ...headers } }),
  );
const teams = async (token = "") => {
  const response = await bearer("/teams", token);
  return [response.status, await response.json()];
};

describe("a login", () => {
  test("with a password gives a token that lists the user's teams and makes keys", async () => {
    await withPassword();
    const given = await login({ email: " Ada@Example.com ", password: PASSWORD });
    expect(given).toMatchObject({
      email: EMAIL,
      tokenEndpoint: "http://localhost/oauth/token",
      revokeEndpoint: "http://localhost/oauth/revoke",
      clientId: "e2b-cli",
    });
    const { exp } = JSON.parse(Buffer.from(given.accessToken?.split(".")[1] ?? "", "base64url").toString());
    expect(exp * 1000).toBe(fixture.clock.now() + LOGIN_ACCESS_MS);
    const [status, [team]] = await teams(given.accessToken);
    expect([status, team.isDefault, team.apiKey.slice(0, 4)]).toEqual([200, true, "e2b_"]);
    expect((await bearer("/api-keys", given.accessToken, { "X-Team-ID": team.teamID })).status).toBe(200);
  });

  test("with an access token is one of its user", async () => {
    const given = await login({ secret: ` ${await token()} ` });
    expect([given.email, (await teams(given.accessToken))[0]]).toEqual([EMAIL, 200]);
  });

  test("with the token of another login, which is valid for an hour, is refused", async () => {
    const { accessToken = "" } = await login({ secret: await token() });
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const { status, text } = await browser.submit("/login", { secret: accessToken });
    expect([status, text.includes("neither an access token")]).toEqual([401, true]);
  });

  test("with an API key lists its team with this key, and has no right of a user", async () => {
    const given = await login({ secret: fixture.apiKey });
    expect(JSON.stringify(given)).not.toContain(fixture.apiKey);
    expect(given.email).toBe("team default");
    const team = await fixture.store.people.teamBySlug("default");
    const listed = { teamID: team?.id, name: "default", apiKey: fixture.apiKey, isDefault: true };
    expect(await teams(given.accessToken)).toEqual([200, [listed]]);
    expect((await bearer("/api-keys", given.accessToken, { "X-Team-ID": team?.id ?? "" })).status).toBe(403);
    const next = await refresh(given.refreshToken);
    expect((await teams(next.access_token))[1]).toEqual([listed]);
    const [key] = await fixture.store.keys.apiKeysOf(team?.id ?? "");
    await fixture.store.keys.removeApiKey(team?.id ?? "", key?.id ?? "");
    expect((await teams(next.access_token))[0]).toBe(401);
    expect((await refresh(next.refresh_token)).error).toBe("invalid_grant");
  });

  test("that is denied gives nothing", async () => {
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    await browser.submit("/login", { secret: fixture.apiKey });
    const { headers } = await browser.submit("/login/allow", { decision: "deny" });
    expect(headers.get("location")).toBe(`${NEXT}/?error=access_denied`);
  });

  test("shows its outcome without what the address says", async () => {
    for (const state of ["success", "error"]) {
      const { status, text } = await browser.open(`/docs/api/cli?state=${state}&error=evil&email=evil`);
      expect([status, text.includes("evil")]).toEqual([200, false]);
    }
  });

  test.each([
    "https://localhost:1",
    "http://localhost",
    "http://localhost:0",
    "http://evil.example:80",
    "http://localhost.evil.example:1",
    "http://localhost:1@evil.example",
    "http://evil@localhost:1",
    "http://127.0.0.2:1",
    "http://localhost:1/path",
    "http://localhost:1/?a=b",
    "http://localhost:1#x",
    "javascript:alert(1)",
    "//evil.example",
    "",
  ])("never returns to %j", async (next) => {
    const { status, text } = await browser.open(`/docs/api/cli?next=${encodeURIComponent(next)}`);
    expect([status, text.includes("<form")]).toEqual([400, false]);
  });

  test.each(["http://127.0.0.1:1", "http://[::1]:65535"])("may return to %s", async (next) => {
    expect((await browser.open(`/docs/api/cli?next=${encodeURIComponent(next)}`)).text).toContain(next);
  });
});

describe("a page", () => {
  test("shows errors of the API as sentences", async () => {
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const { text } = await browser.submit("/login", { secret: "sk_e2b_0" });
    expect(text).toContain(">This access token is not valid. No user has this token.</p>");
    const withoutNext = await browser.open("/docs/api/cli");
    expect(withoutNext.text).toContain("<p>The parameter next must be http://localhost:PORT");
    expect(withoutNext.text).toContain("open the address that it prints.</p>");
  });

  test("loads nothing, runs no script, is in no frame, and names only its own form targets", async () => {
    const opened = await browser.open(`/docs/api/cli?next=${NEXT}`);
    const consent = await browser.submit("/login", { secret: fixture.apiKey });
    for (const [{ headers, text }, targets] of [
      [opened, "form-action 'self'"],
      [consent, `form-action 'self' ${NEXT}`],
    ] as const) {
      const policy = headers.get("content-security-policy")?.split("; ") ?? [];
      expect(policy).toEqual([
        "default-src 'none'",
        expect.stringMatching(/^style-src 'sha256-[\w+/]{43}='$/),
        targets,
        "frame-ancestors 'none'",
        "base-uri 'none'",
      ]);
      const style = /<style>([\s\S]*)<\/style>/.exec(text)?.[1] ?? "";
      expect(policy[1]).toContain(new Bun.CryptoHasher("sha256").update(style).digest("base64"));
      expect(text).not.toMatch(/<script|<img|<link|\son\w+=|\ssrc=/i);
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBeNull();
      expect(headers.get("x-request-id")).toMatch(/^[0-9a-f]{16}$/);
    }
    expect(opened.headers.get("set-cookie")).toMatch(/^sandlot-login=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Lax; /);
  });

  test("over TLS has a cookie that no neighbouring host can set", async () => {
    const client = { address: "192.0.2.1", fromTrustedProxy: false, isSecure: true };
    const { headers } = await fixture.control.handle(new Request(`http://localhost/docs/api/cli?next=${NEXT}`), client);
    expect(headers.get("set-cookie")).toMatch(/^__Host-sandlot-login=[0-9a-f]{64}; Path=\/; .*; Secure$/);
  });

  test("takes no form of another browser, of another page, or after its time", async () => {
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const other = new Browser(fixture.control);
    await other.open(`/docs/api/cli?next=${NEXT}`);
    const mine = browser.fieldsOf("/login");
    const refused = async (by: Browser, path: string, fields: Record<string, string>) =>
      expect((await by.post(path, fields)).status).toBe(403);
    await refused(other, "/login", { ...mine, secret: fixture.apiKey });
    await refused(new Browser(fixture.control), "/login", { ...mine, secret: fixture.apiKey });
    await refused(browser, "/login", { form: "", secret: fixture.apiKey });
    await refused(browser, "/login/allow", { grant: mine.form ?? "", decision: "allow" });
    await browser.submit("/login", { secret: fixture.apiKey });
    const grant = browser.fieldsOf("/login/allow");
    await refused(other, "/login/allow", { ...grant, decision: "allow" });
    await fixture.advance(10 * 60_000);
    await refused(browser, "/login/allow", { ...grant, decision: "allow" });
    await fixture.advance(60 * 60_000);
    await refused(browser, "/login", { ...mine, secret: fixture.apiKey });
  });

  test.each([
    ["a sandbox of the same site", { "Sec-Fetch-Site": "same-site" }],
    ["another site", { "Sec-Fetch-Site": "cross-site", Origin: "http://localhost" }],
    ["a sandbox, without TLS", { Origin: "http://3000-i0123456789abcdefghij.localhost" }],
    ["an unnamed origin", { Origin: "null" }],
  ])("takes no form of %s, even with the right cookie", async (_, headers) => {
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const fields = { ...browser.fieldsOf("/login"), secret: fixture.apiKey };
    expect((await browser.post("/login", fields, headers)).status).toBe(403);
    const own = { "Sec-Fetch-Site": "same-origin", Origin: "http://localhost" };
    for (const sent of [own, { Origin: "http://localhost" }]) {
      expect((await browser.post("/login", fields, sent)).status).toBe(200);
    }
    const grant = { ...browser.fieldsOf("/login/allow"), decision: "allow" };
    expect((await browser.post("/login/allow", grant, headers)).status).toBe(403);
    expect((await browser.post("/login/allow", grant, own)).status).toBe(303);
  });

  test("is known by the name that the browser opened, and by the public one behind a proxy", async () => {
    fixture.publicUrl = "http://api.example.com";
    await fixture.restart();
    browser = new Browser(fixture.control);
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const fields = { ...browser.fieldsOf("/login"), secret: fixture.apiKey };
    const statuses: number[] = [];
    for (const Origin of ["http://localhost", "http://api.example.com", "http://x.api.example.com"]) {
      statuses.push((await browser.post("/login", fields, { Origin })).status);
    }
    expect(statuses).toEqual([200, 200, 403]);
  });

  test("says to itself, and to no other address, where a form comes from", async () => {
    const { headers } = await browser.open(`/docs/api/cli?next=${NEXT}`);
    // Browsers send `Origin: null` with forms of a page with no-referrer.
    expect(headers.get("referrer-policy")).toBe("same-origin");
  });

  test("shows values as text", async () => {
    const team = await fixture.store.people.teamBySlug("default");
    await fixture.store.people.rename(team?.id ?? "", "<b>&\"'");
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    const { text } = await browser.submit("/login", { secret: fixture.apiKey });
    expect(text).toContain("team &lt;b&gt;&amp;&quot;&#39;");
  });

  test("takes forms only, of a bounded size", async () => {
    const post = (body: string, type: string) =>
      fixture.control.handle(
        new Request("http://localhost/login", { method: "POST", body, headers: { "Content-Type": type } }),
      );
    expect((await post("{}", "application/json")).status).toBe(415);
    expect((await post(`form=${"x".repeat(16 * 1024)}`, "application/x-www-form-urlencoded")).status).toBe(413);
    expect((await fixture.control.handle(new Request("http://localhost/login"))).status).toBe(405);
  });
});

describe("a password", () => {
  const tryWith = async (fields: Record<string, string>) => {
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    return browser.submit("/login", fields);
  };

  test("that is wrong, of an unknown user, or of one without a password gets the same response", async () => {
    await withPassword();
    const replies = [];
    for (const [email, password] of [
      [EMAIL, "wrong wrong wrong"],
      [EMAIL, "x".repeat(PASSWORD_MAX_CHARS + 1)],
      [EMAIL, ""],
      ["nobody@example.com", PASSWORD],
      ["operator@localhost", PASSWORD],
    ] as const) {
      const { status, text } = await tryWith({ email, password });
      replies.push([status, text.includes("The email address or the password is wrong."), text.includes(PASSWORD)]);
    }
    expect(new Set(replies.map(String))).toEqual(new Set(["401,true,false"]));
  });

  test("has a bounded length, and a new one ends the logins of the old one", async () => {
    for (const length of [PASSWORD_MIN_CHARS - 1, PASSWORD_MAX_CHARS + 1]) {
      await expect(setPassword(fixture, await user(), "x".repeat(length))).rejects.toMatchObject({ status: 400 });
    }
    await withPassword();
    const given = await login({ email: EMAIL, password: PASSWORD });
    await setPassword(fixture, await user(), "another long password");
    expect((await teams(given.accessToken))[0]).toBe(401);
    expect((await tryWith({ email: EMAIL, password: PASSWORD })).status).toBe(401);
  });

  test("gets 429 after too many attempts for an email address or from a network", async () => {
    const from = (address: string) => new Browser(fixture.control, { address, fromTrustedProxy: false });
    const attempt = async (by: Browser, email: string) => {
      await by.open(`/docs/api/cli?next=${NEXT}`);
      return by.submit("/login", { email, password: "" });
    };
    const one = from("192.0.2.1");
    for (let nth = 0; nth < LOGIN_TRIES_AT_ONCE; nth++) expect((await attempt(one, `${nth}@x`)).status).toBe(401);
    const { status, headers, text } = await attempt(one, "another@x");
    expect([status, headers.get("retry-after")]).toEqual([429, String(60 / LOGIN_TRIES_PER_MINUTE)]);
    expect(text).toContain('<p class="error" role="alert">Too many attempts to sign in');
    for (let nth = 0; nth < EMAIL_TRIES_AT_ONCE; nth++) {
      expect((await attempt(from(`192.0.2.${nth + 2}`), EMAIL)).status).toBe(401);
    }
    expect((await attempt(from("198.51.100.1"), EMAIL)).status).toBe(429);
    expect((await attempt(from("198.51.100.1"), "other@x")).status).toBe(401);
    await fixture.advance(60_000 / LOGIN_TRIES_PER_MINUTE);
    expect((await attempt(one, "another@x")).status).toBe(401);
  });

  test("is not blocked by attempts of one other network", async () => {
    expect(EMAIL_TRIES_AT_ONCE).toBeGreaterThan(LOGIN_TRIES_AT_ONCE);
    expect(EMAIL_TRIES_PER_MINUTE).toBeGreaterThan(LOGIN_TRIES_PER_MINUTE);
    await withPassword();
    const stranger = new Browser(fixture.control, { address: "192.0.2.1", fromTrustedProxy: false });
    await stranger.open(`/docs/api/cli?next=${NEXT}`);
    const fields = stranger.fieldsOf("/login");
    for (let nth = 0; nth < 10 * LOGIN_TRIES_AT_ONCE; nth++) {
      await stranger.post("/login", { ...fields, email: EMAIL, password: "" });
    }
    const own = new Browser(fixture.control, { address: "198.51.100.1", fromTrustedProxy: false });
    await own.open(`/docs/api/cli?next=${NEXT}`);
    expect((await own.submit("/login", { email: EMAIL, password: PASSWORD })).status).toBe(200);
  });

  test("works in a browser that signed in before, whatever others try; there it has a budget too", async () => {
    await withPassword();
    const at = (address: string) => new Browser(fixture.control, { address, fromTrustedProxy: false });
    const own = at("192.0.2.1");
    const attempt = async (by: Browser, email: string, password: string) => {
      await by.open(`/docs/api/cli?next=${NEXT}`);
      return (await by.submit("/login", { email, password })).status;
    };
    expect(await attempt(own, EMAIL, PASSWORD)).toBe(200);
    for (let nth = 0; nth < EMAIL_TRIES_AT_ONCE; nth++) await attempt(at(`198.51.100.${nth}`), EMAIL, "");
    for (let nth = 0; nth < LOGIN_TRIES_AT_ONCE; nth++) await attempt(at("192.0.2.1"), `${nth}@x`, "");
    expect(await attempt(at("203.0.113.1"), EMAIL, PASSWORD)).toBe(429);
    expect(await attempt(own, "other@x", "")).toBe(429);
    for (let nth = 0; nth < LOGIN_TRIES_AT_ONCE; nth++) expect(await attempt(own, EMAIL, "")).toBe(401);
    expect(await attempt(own, EMAIL, PASSWORD)).toBe(429);
    await fixture.advance(60_000 / LOGIN_TRIES_PER_MINUTE);
    expect(await attempt(own, EMAIL, PASSWORD)).toBe(200);
  });

  test("that was changed, like a revoked token, gives nothing on a page that is still open", async () => {
    await withPassword();
    const allow = () => browser.submit("/login/allow", { decision: "allow" });
    await tryWith({ email: EMAIL, password: PASSWORD });
    await setPassword(fixture, await user(), "another long password");
    expect((await allow()).status).toBe(401);
    await tryWith({ email: EMAIL, password: "another long password" });
    await removePassword(fixture, await user());
    expect((await allow()).status).toBe(401);
    const { secret, token } = await createAccessToken(fixture, { userId: (await user()).id, name: "t" });
    await tryWith({ secret });
    await fixture.store.keys.removeAccessToken((await user()).id, token.id);
    expect((await allow()).status).toBe(401);
    await tryWith({ secret: fixture.apiKey });
    const [key] = await fixture.store.keys.apiKeysOf((await fixture.store.people.teamBySlug("default"))?.id ?? "");
    await fixture.store.keys.removeApiKey(key?.teamId ?? "", key?.id ?? "");
    expect((await allow()).status).toBe(401);
  });
});

describe("the audit log", () => {
  const entries = async () => {
    await fixture.passBy(AUDIT_WRITTEN_EVERY_MS);
    const found = await fixture.store.auditLog.list({}, undefined, 1_000);
    return found.filter(({ action }) => /login|oauth/.test(action));
  };
  /** Sorted, without ids. */
  const told = async () =>
    (await entries())
      .map(({ actor, action, object, status }) => `${actor}: ${action}, ${object}: ${status}`)
      .map((text) => text.replaceAll(/[0-9a-f-]{36}/g, "ID"))
      .toSorted();

  test("has logins, refreshes, reuse of a token, and logouts, of users and of API keys", async () => {
    await withPassword();
    const one = await login({ email: EMAIL, password: PASSWORD });
    const pair = await refresh(one.refreshToken);
    // The same pair again: nothing changes.
    await refresh(one.refreshToken);
    await form("/oauth/revoke", { token: pair.refresh_token ?? "" });
    await form("/oauth/revoke", { token: pair.refresh_token ?? "" });
    expect(await told()).toEqual([
      "user: POST /login/allow, login ID with a password: 303",
      "user: POST /oauth/revoke, login ID: 200",
      "user: POST /oauth/token, login ID: 200",
    ]);
    const other = await login({ secret: fixture.apiKey });
    await refresh((await refresh(other.refreshToken)).refresh_token);
    await refresh(other.refreshToken);
    expect((await told()).filter((text) => text.startsWith("key"))).toEqual([
      "key: POST /login/allow, login ID with an API key: 303",
      "key: POST /oauth/token, login ID, which ended: a refresh token was used twice: 400",
      "key: POST /oauth/token, login ID: 200",
      "key: POST /oauth/token, login ID: 200",
    ]);
    const [key] = await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId);
    for (const entry of (await entries()).filter(({ actor }) => actor === "key")) {
      expect(entry).toMatchObject({ actorId: key?.id ?? "", teamId: fixture.firstRun.teamId });
    }
  });

  test("has failed logins with address and user, and never what was typed", async () => {
    browser = new Browser(fixture.control, { address: "192.0.2.7", fromTrustedProxy: false });
    const typed = ["nobody secret@x", "wrong wrong wrong", `e2b_${"0".repeat(40)}`, `sk_e2b_${"1".repeat(40)}`];
    await browser.open(`/docs/api/cli?next=${NEXT}`);
    for (const fields of [
      { email: EMAIL, password: typed[1] ?? "" },
      { email: typed[0] ?? "", password: typed[1] ?? "" },
      { secret: typed[2] ?? "" },
      { secret: typed[3] ?? "" },
    ]) {
      await browser.submit("/login", fields);
    }
    expect(await told()).toEqual([
      "stranger: POST /login, a password of an unknown user: 401",
      "stranger: POST /login, an API key: 401",
      "stranger: POST /login, an access token: 401",
      `stranger: POST /login, password of user ${EMAIL} ID: 401`,
    ]);
    const all = await entries();
    expect(new Set(all.map(({ address }) => address))).toEqual(new Set(["192.0.2.7"]));
    for (const text of typed) expect(JSON.stringify(all)).not.toContain(text);
  });

  test("takes few of many failed logins, and has the number of the others", async () => {
    let network = 0;
    const fail = async () => {
      const address = `10.0.${network >> 8}.${network++ & 255}`;
      const from = new Browser(fixture.control, { address, fromTrustedProxy: false });
      await from.open(`/docs/api/cli?next=${NEXT}`);
      expect((await from.submit("/login", { secret: "x" })).status).toBe(401);
    };
    for (let nth = 0; nth < FAILED_LOGINS_AT_ONCE + 5; nth++) await fail();
    expect(await entries()).toHaveLength(FAILED_LOGINS_AT_ONCE);
    await fixture.advance(60_000 / FAILED_LOGINS_PER_MINUTE);
    await fail();
    expect((await entries())[0]?.object).toBe("an access token; before it 5 that are not recorded");
  });
});

describe("a refresh token", () => {
  test("is replaced by each use; a second use ends the login", async () => {
    const given = await login({ secret: await token() });
    await fixture.advance(LOGIN_ACCESS_MS);
    expect((await teams(given.accessToken))[0]).toBe(401);
    const second = await refresh(given.refreshToken);
    expect(second).toMatchObject({ status: 200, token_type: "Bearer", expires_in: LOGIN_ACCESS_MS / 1000 });
    expect((await teams(second.access_token))[0]).toBe(200);
    const again = await refresh(given.refreshToken);
    expect([again.status, again.refresh_token]).toEqual([200, second.refresh_token]);
    await fixture.advance(REFRESH_REPEATED_WITHIN_MS + 1);
    const third = await refresh(second.refresh_token);
    expect(third.status).toBe(200);
    expect(await refresh(given.refreshToken)).toMatchObject({ status: 400, error: "invalid_grant" });
    expect((await refresh(third.refresh_token)).status).toBe(400);
    expect((await teams(third.access_token))[0]).toBe(401);
    expect(fixture.logLines.join("\n")).toContain("a refresh token was used twice");
  });

  test("used by many at once gives all of them one pair", async () => {
    const given = await login({ secret: await token() });
    const pairs = await Promise.all(Array.from({ length: 5 }, () => refresh(given.refreshToken)));
    expect(new Set(pairs.map(({ refresh_token }) => refresh_token)).size).toBe(1);
    expect((await refresh(pairs[0]?.refresh_token)).status).toBe(200);
  });

  test.each(["", "x", "a.b.c"])("%j is refused without effect", async (token) => {
    expect(await refresh(token)).toMatchObject({ status: 400, error: "invalid_grant" });
  });

  test("is no access token, and the other way round", async () => {
    const given = await login({ secret: await token() });
    expect((await teams(given.refreshToken))[0]).toBe(401);
    expect((await refresh(given.accessToken)).error).toBe("invalid_grant");
    const [head, body] = given.accessToken?.split(".") ?? [];
    const none = Buffer.from('{"alg":"none"}').toString("base64url");
    for (const forged of [`${none}.${body}.`, `${none}.${body}.x`, `${head}.${body}.AAAA`]) {
      expect((await teams(forged))[0]).toBe(401);
    }
  });

  test("ends 90 days after the login", async () => {
    let pair = await refresh((await login({ secret: await token() })).refreshToken);
    await fixture.advance(LOGIN_MS - 1000);
    pair = await refresh(pair.refresh_token);
    expect(pair).toMatchObject({ status: 200, expires_in: 1 });
    await fixture.advance(1000);
    expect((await refresh(pair.refresh_token)).error).toBe("invalid_grant");
    expect((await teams(pair.access_token))[0]).toBe(401);
  });

  test("revoked, or of a deleted user, is not valid any more; nor is its access token", async () => {
    const revoke = async (fields: Record<string, string>) => (await form("/oauth/revoke", fields)).status;
    for (const which of ["refreshToken", "accessToken"]) {
      const given = await login({ secret: await token() });
      expect(await revoke({ token: given[which] ?? "", token_type_hint: "refresh_token" })).toBe(200);
      expect([(await teams(given.accessToken))[0], (await refresh(given.refreshToken)).status]).toEqual([401, 400]);
    }
    expect([await revoke({ token: "unknown" }), await revoke({})]).toEqual([200, 400]);
    const given = await login({ secret: await token() });
    await fixture.store.people.removeUser((await user()).id);
    expect([(await teams(given.accessToken))[0], (await refresh(given.refreshToken)).status]).toEqual([401, 400]);
  });

  test("of another kind of grant is refused by name", async () => {
    const response = await form("/oauth/token", { grant_type: "password", username: "a", password: "b" });
    expect([response.status, (await response.json()).error]).toEqual([400, "unsupported_grant_type"]);
  });

  test("survives a restart of the server", async () => {
    const given = await login({ secret: await token() });
    await fixture.restart();
    expect((await refresh(given.refreshToken)).status).toBe(200);
  });
});

test("a 101st login of a user ends the oldest", async () => {
  const secret = await token();
  const first = await login({ secret });
  for (let nth = 1; nth < LOGINS_PER_OWNER_MAX; nth++) {
    await fixture.clock.advance(1, async () => undefined);
    await fixture.store.logins.add({
      id: crypto.randomUUID(),
      userId: (await user()).id,
      apiKeyId: null,
      sealedKey: null,
      generation: 0,
      rotatedAt: fixture.clock.now(),
      createdAt: fixture.clock.now(),
    });
  }
  expect((await teams(first.accessToken))[0]).toBe(200);
  await fixture.clock.advance(1, async () => undefined);
  const last = await login({ secret });
  expect([(await teams(first.accessToken))[0], (await teams(last.accessToken))[0]]).toEqual([401, 200]);
});
