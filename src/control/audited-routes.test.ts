/** Every route that changes something is in the audit log when its owner calls it, except for a short list. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Logins } from "./access/logins.ts";
import { LoginPages } from "./login/login-pages.ts";
import { OAuthEndpoints } from "./login/oauth-endpoints.ts";
import { routes } from "./routes/routes.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { WALK } from "./testing/route-walk.ts";
import { headersOf, makeTenant, type Named, type Tenant } from "./testing/tenant.ts";

/** Not recorded, with the reason. */
const NOT_RECORDED: Record<string, string> = {
  "PUT /templates/{templateID}/files/{hash}":
    "has no caller but a signed link; the build that uses the files is recorded",
  "PATCH /volumecontent/{volumeID}/path": "content of volumes, like files in a sandbox",
  "DELETE /volumecontent/{volumeID}/path": "content of volumes",
  "POST /volumecontent/{volumeID}/dir": "content of volumes",
  "PUT /volumecontent/{volumeID}/file": "content of volumes",
};

/** Pages that take forms, and what is recorded of them. `login-pages.test.ts` tests it. */
const FORMS: Record<string, string> = {
  "POST /login": "failed logins",
  "POST /login/allow": "logins",
  "POST /oauth/token": "refreshes of a login, and its end when a token was used twice",
  "POST /oauth/revoke": "ends of a login",
};

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const changing = routes.filter(({ method }) => method !== "GET");

let fixture: ControlFixture;
let owner: Tenant;
beforeAll(async () => {
  fixture = await ControlFixture.open();
  owner = await makeTenant(fixture, "owners");
});
afterAll(() => fixture[Symbol.asyncDispose]());

async function recorded(action: string): Promise<number> {
  // A stop writes what waits.
  await fixture.restart();
  return (await fixture.store.auditLog.list({ action }, undefined, 1_000)).length;
}

async function callAsOwner(route: (typeof routes)[number]): Promise<void> {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => owner.names[name as keyof Named]);
  const [{ query, body } = {}] = WALK[nameOf(route)]?.ask?.(owner.names, owner.names) ?? [];
  const isRoot = route.auth === "admin";
  const request = new Request(`http://localhost${path}?${new URLSearchParams(query)}`, {
    method: route.method,
    headers: isRoot ? {} : headersOf(route.auth, owner.credentials),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const response = await fixture.control.handle(request, { address: "192.0.2.1", fromTrustedProxy: false, isRoot });
  expect([nameOf(route), response.status]).not.toEqual([nameOf(route), 401]);
  await response.body?.cancel();
}

describe("the audit log", () => {
  // What deletes the owner's keys goes last, and then what deletes the owner.
  const order = (name: string) => (/ \/admin\//.test(name) ? 2 : /^DELETE .*-(?:keys|tokens)/.test(name) ? 1 : 0);
  const audited = changing
    .filter((route) => NOT_RECORDED[nameOf(route)] === undefined)
    .toSorted((one, other) => order(nameOf(one)) - order(nameOf(other)));

  test.each(audited.map((route) => [nameOf(route), route] as const))("has %s", async (name, route) => {
    const before = await recorded(name);
    await callAsOwner(route);
    expect(await recorded(name)).toBe(before + 1);
  });

  test("has no exceptions that are no routes", () => {
    const names = new Set(changing.map(nameOf));
    expect(Object.keys(NOT_RECORDED).filter((name) => !names.has(name))).toEqual([]);
  });

  test("knows every page that takes forms", () => {
    const audit = { note: () => undefined, noteRecorded: () => undefined, noteFailedLogin: () => undefined };
    const logins = new Logins(fixture.services, audit, new Uint8Array(32));
    const pages = [
      ...new LoginPages(fixture.services, logins, audit, undefined).pages,
      ...new OAuthEndpoints(fixture.services, logins).pages,
    ];
    expect(pages.filter(({ method }) => method !== "GET").map(nameOf)).toEqual(Object.keys(FORMS));
  });
});
