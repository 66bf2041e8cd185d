/** The official command line logs in, lists, refreshes its token and logs out against this management API. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setPassword } from "../access/passwords.ts";
import { createUser, userNamed } from "../access/people.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { Browser } from "../testing/login-browser.ts";

const PROGRAM = join(import.meta.dir, "../../../node_modules/.bin/e2b");
const COMMAND_MS = 50_000;
const EMAIL = "ada@example.com";
const PASSWORD = "correct horse battery";

let fixture: ControlFixture;
let server: Bun.Server<undefined>;
const home = mkdtempSync(join(tmpdir(), "sandlot-cli-login-"));
const configFile = join(home, ".e2b/config.json");
const config = () => JSON.parse(readFileSync(configFile, "utf8"));
beforeAll(async () => {
  fixture = await ControlFixture.open();
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => fixture.control.handle(request) });
  const team = await fixture.store.people.teamBySlug("default");
  await createUser(fixture, { email: EMAIL, teamIds: [team?.id ?? ""] });
  await setPassword(fixture, await userNamed(fixture.store, EMAIL), PASSWORD);
});
afterAll(async () => {
  await server.stop(true);
  await fixture[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

function e2b(args: string[], stdin: "ignore" | Blob = "ignore") {
  const url = server.url.origin;
  return Bun.spawn([Bun.which("node") ?? "node", PROGRAM, ...args], {
    cwd: home,
    // There is no program that opens a browser, so the command prints the address.
    env: {
      PATH: home,
      HOME: home,
      E2B_API_URL: url,
      E2B_DOCS_BASE: `${url}/docs`,
      NO_COLOR: "1",
      NO_UPDATE_NOTIFIER: "1",
    },
    stdio: [stdin, "pipe", "pipe"],
    timeout: COMMAND_MS,
  });
}

async function outputOf(child: ReturnType<typeof e2b>): Promise<string> {
  const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect([await child.exited, error]).toEqual([0, ""]);
  return out;
}

/** Opens the printed address and signs in, as a person would. Follows the redirect to the command. */
async function signInAt(address: string): Promise<void> {
  const { pathname, search } = new URL(address);
  const browser = new Browser({
    handle: (request) =>
      fixture.control.handle(new Request(request.url.replace("http://localhost", server.url.origin), request)),
  });
  expect((await browser.open(pathname + search)).status).toBe(200);
  await browser.submit("/login", { email: EMAIL, password: PASSWORD });
  const { headers } = await browser.submit("/login/allow", { decision: "allow" });
  const outcome = await fetch(headers.get("location") ?? "");
  expect(await outcome.text()).toContain("return to your terminal");
}

test(
  "e2b auth login, info, sandbox list, configure with an expired token, and logout",
  async () => {
    const login = e2b(["auth", "login"]);
    let printed = "";
    let signedIn: Promise<void> | undefined;
    for await (const chunk of login.stdout) {
      printed += new TextDecoder().decode(chunk);
      const address = /http:\S+\/docs\/api\/cli\?next=\S+(?=\n)/.exec(printed)?.[0];
      if (address !== undefined) signedIn ??= signInAt(address);
    }
    await signedIn;
    expect([await login.exited, printed]).toEqual([0, expect.stringContaining(`Logged in as ${EMAIL}`)]);
    expect(statSync(configFile).mode & 0o777).toBe(0o600);
    expect(await outputOf(e2b(["auth", "info"]))).toContain(EMAIL);
    const id = await fixture.create();
    expect(await outputOf(e2b(["sandbox", "list"]))).toContain(id);

    const first = config();
    const expired = `x.${Buffer.from('{"exp":1}').toString("base64url")}.x`;
    writeFileSync(configFile, JSON.stringify({ ...first, tokens: { ...first.tokens, access_token: expired } }));
    expect(await outputOf(e2b(["auth", "configure"], new Blob(["\n"])))).toContain("selected");
    const second = config();
    expect(second.projectApiKey).not.toBe(first.projectApiKey);
    expect(second.tokens.refresh_token).not.toBe(first.tokens.refresh_token);

    expect(await outputOf(e2b(["auth", "logout"]))).toContain("Logged out");
    expect(existsSync(configFile)).toBe(false);
    const request = new Request("http://localhost/teams", {
      headers: { Authorization: `Bearer ${second.tokens.access_token}` },
    });
    expect((await fixture.control.handle(request)).status).toBe(401);
    // A stop writes what waits.
    await fixture.restart();
    const entries = await fixture.store.auditLog.list({}, undefined, 100);
    const ofLogins = entries.filter(({ object }) => object?.startsWith("login ")).map(({ action }) => action);
    expect(ofLogins.toReversed()).toEqual(["POST /login/allow", "POST /oauth/token", "POST /oauth/revoke"]);
  },
  2 * COMMAND_MS,
);
