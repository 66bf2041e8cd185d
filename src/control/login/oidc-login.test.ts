/** Login with a real issuer on loopback, from the button of the sign-in page to the tokens. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createUser } from "../access/people.ts";
import { LOGIN_TRIES_AT_ONCE } from "../budgets/login-budgets.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { Browser } from "../testing/login-browser.ts";
import { TestIssuer } from "../testing/test-issuer.ts";
import { ISSUER_LOGINS_AT_ONCE, OidcLogin, type OidcSettings } from "./oidc-login.ts";

const NEXT = "http://localhost:21198";
const EMAIL = "ada@example.com";

let issuer: TestIssuer;
beforeAll(async () => {
  issuer = await TestIssuer.open("http://localhost/login/oidc/callback");
});
afterAll(() => issuer[Symbol.asyncDispose]());

let fixture: ControlFixture;
let browser: Browser;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  await restartWith({});
  const team = await fixture.store.people.teamBySlug("default");
  await createUser(fixture, { email: EMAIL, teamIds: [team?.id ?? ""] });
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function restartWith(changes: Partial<OidcSettings>): Promise<void> {
  fixture.oidc = {
    issuer: issuer.url,
    clientId: "sandlot",
    clientSecret: issuer.clientSecret,
    domains: [],
    ...changes,
  };
  await fixture.restart();
  browser = new Browser(fixture.control, { address: "192.0.2.1", fromTrustedProxy: false });
}

/** Follows the button of the sign-in page to the issuer, signs in there, and returns with the browser. */
async function signIn(email: string): Promise<{ status: number; text: string }> {
  const returned = await returnAddress(email);
  return browser.open(returned);
}

/** The path with which the issuer sends the browser back. */
async function returnAddress(email: string): Promise<string> {
  const { text } = await browser.open(`/docs/api/cli?next=${NEXT}`);
  const button = /href="(\/login\/oidc\?form=[\w.-]+)"/.exec(text)?.[1] ?? "";
  const { status, headers } = await browser.open(button);
  expect(status).toBe(303);
  const back = new URL(await issuer.signIn(headers.get("location") ?? "", email));
  expect(back.origin + back.pathname).toBe("http://localhost/login/oidc/callback");
  return back.pathname + back.search;
}

describe("a login with an issuer", () => {
  test("is one of the user with the verified email address", async () => {
    const { status, text } = await signIn("Ada@Example.com");
    expect([status, text.includes(`Signed in as <strong>${EMAIL}</strong>`)]).toEqual([200, true]);
    const { headers } = await browser.submit("/login/allow", { decision: "allow" });
    const given = new URL(headers.get("location") ?? "");
    expect([given.origin, given.searchParams.get("email")]).toEqual([NEXT, EMAIL]);
    const authorization = `Bearer ${given.searchParams.get("accessToken")}`;
    const request = new Request("http://localhost/teams", { headers: { authorization } });
    expect((await fixture.control.handle(request)).status).toBe(200);
  });

  test.each([
    ["unverified@example.com", "has not verified your email address"],
    ["unknown@example.com", "has no user unknown@example.com"],
    ["operator@localhost", "may not sign in"],
    // The Kelvin sign, whose lower case is k.
    ["\u212aate@example.com", "beyond A to Z"],
  ])("as %s is refused with the reason", async (email, reason) => {
    const { status, text } = await signIn(email);
    expect([status, text.includes(reason), text.includes("<form")]).toEqual([403, true, true]);
  });

  test("creates users of the given domains only, in the given team", async () => {
    await restartWith({ domains: ["example.com"], team: "default" });
    expect((await signIn("new@example.com")).status).toBe(200);
    const user = await fixture.store.people.userByEmail("new@example.com");
    expect((await fixture.store.people.teamsOf(user?.id ?? "")).map(({ team }) => team.slug)).toEqual(["default"]);
    expect((await signIn("new@elsewhere.example")).status).toBe(403);
    await fixture.restart();
    browser = new Browser(fixture.control);
    const entries = (await fixture.store.auditLog.list({}, undefined, 10)).map(({ actor, action, object }) => {
      return [actor, action, object];
    });
    const returned = "GET /login/oidc/callback";
    const created = `user new@example.com ${user?.id}`;
    expect(entries).toContainEqual(["server", returned, created]);
    const refusal = `the issuer ${new URL(issuer.url).host}: Users of elsewhere.example may not sign in`;
    expect(entries).toContainEqual(["stranger", returned, expect.stringContaining(refusal)]);
    await restartWith({ domains: ["example.com"], team: "no-such-team" });
    expect((await signIn("newer@example.com")).status).toBe(503);
    expect((await signIn("new@example.com")).status).toBe(200);
  });

  test("cannot be finished by another browser, twice, later, or with another code", async () => {
    const back = await returnAddress(EMAIL);
    expect((await new Browser(fixture.control).open(back)).status).toBe(403);
    const foreign = new Browser(fixture.control);
    await foreign.open(`/docs/api/cli?next=${NEXT}`);
    expect((await foreign.open(back)).status).toBe(403);
    expect((await browser.open(back.replace(/code=[^&]+/, "code=guessed"))).status).toBe(502);
    expect((await browser.open(back)).status).toBe(200);
    expect((await browser.open(back)).status).toBe(502);
    const [one, other] = [await returnAddress(EMAIL), await returnAddress(EMAIL)];
    const stateOf = (path: string) => /state=([^&]+)/.exec(path)?.[1] ?? "";
    // The code of one login with the state of another: its verifier and nonce are others.
    expect((await browser.open(one.replace(stateOf(one), stateOf(other)))).status).toBe(502);
    const late = await returnAddress(EMAIL);
    await fixture.advance(30 * 60_000);
    expect((await browser.open(late)).status).toBe(403);
    expect(fixture.logLines.join("\n")).not.toContain(stateOf(one));
  });

  test("that the issuer refuses shows the sign-in page again, without what the address says", async () => {
    const back = await returnAddress(EMAIL);
    const state = /state=[^&]+/.exec(back)?.[0];
    const { iss } = Object.fromEntries(new URL(back, "http://localhost").searchParams);
    const refused = `/login/oidc/callback?error=access_denied&error_description=evil&${state}&iss=${iss}`;
    const { status, text } = await browser.open(refused);
    expect([status, text.includes("did not sign you in"), text.includes("evil")]).toEqual([401, true, false]);
  });

  test("gets 429 after too many wrong codes from one network", async () => {
    const back = await returnAddress(EMAIL);
    const guessed = back.replace(/code=[^&]+/, "code=guessed");
    const statuses: number[] = [];
    for (let nth = 0; nth <= LOGIN_TRIES_AT_ONCE; nth++) statuses.push((await browser.open(guessed)).status);
    expect(statuses).toEqual([...Array(LOGIN_TRIES_AT_ONCE).fill(502), 429]);
  });

  test("with a wrong secret does not work", async () => {
    await restartWith({ clientSecret: "wrong" });
    expect((await signIn(EMAIL)).status).toBe(502);
    expect(fixture.logLines.join("\n")).toContain("a login with the issuer failed");
  });

  test("is not offered without one", async () => {
    fixture.oidc = undefined;
    await fixture.restart();
    browser = new Browser(fixture.control);
    expect((await browser.open(`/docs/api/cli?next=${NEXT}`)).text).not.toContain("/login/oidc");
    for (const path of ["/login/oidc", "/login/oidc/callback"]) expect((await browser.open(path)).status).toBe(404);
  });
});

describe("an issuer", () => {
  const login = (answer: (request: Request) => Response | Promise<Response>) => {
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
    const settings = { issuer: `http://127.0.0.1:${server.port}`, clientId: "sandlot", domains: [] };
    const client = new OidcLogin(fixture.services, settings, 200);
    const begin = () => client.begin("http://localhost/", async () => "state");
    return { begin, [Symbol.asyncDispose]: () => server.stop(true) };
  };

  test("that does not answer is given up, blocks few, and is asked again", async () => {
    let asked = 0;
    const never = new Promise<Response>(() => undefined);
    await using silent = login(() => {
      asked++;
      return never;
    });
    const all = Array.from({ length: ISSUER_LOGINS_AT_ONCE + 1 }, () => silent.begin());
    const statuses = (await Promise.allSettled(all)).map((each) => each.status === "rejected" && each.reason.status);
    expect(statuses.toSorted()).toEqual([...Array(ISSUER_LOGINS_AT_ONCE).fill(502), 503]);
    expect(asked).toBe(1);
    await expect(silent.begin()).rejects.toMatchObject({ status: 502 });
    expect(asked).toBe(2);
  });

  test.each([
    [
      "with a response above the bound",
      () => new Response("x".repeat(1024 ** 2), { headers: { "Content-Type": "application/json" } }),
    ],
    ["that names another issuer", () => Response.json({ issuer: "https://other.example" })],
    ["that redirects", () => Response.redirect("http://127.0.0.1:1/")],
    ["that responds 500", () => new Response("no", { status: 500 })],
  ])("%s is rejected with 502", async (_, answer) => {
    await using odd = login(answer);
    await expect(odd.begin()).rejects.toMatchObject({ status: 502 });
  });
});
