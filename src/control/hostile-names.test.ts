/**
 * Hostile values for every name, id, tag and hash that the management API takes: parent paths, NUL, line ends,
 * separators in any encoding. Nothing is found or created under them, and the host never receives one.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { FakeHost } from "../host/testing/fake-host.ts";
import { createAdminToken } from "./access/keys.ts";
import { routes } from "./routes/routes.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { WALK } from "./testing/route-walk.ts";
import { headersOf, makeTenant, type Named, type Tenant } from "./testing/tenant.ts";

const HOSTILE = [
  "..",
  "../../etc/passwd",
  "..%2f..%2fetc%2fpasswd",
  "/etc/passwd",
  "a/../b",
  "a\\..\\b",
  "a\0b",
  "a\nb",
  "a\r\nX-Header: b",
  "%2e%2e%2f",
  "\u202e\uff0f\u2024\u2024",
  "~root",
  "$(reboot)",
  "a;b|c",
  "x".repeat(5_000),
];

/** An empty list, or one for each of several things. */
const NOTHING = /^(?:\[\]|\{(?:"\w+":(?:\[\]|\{\}),?)*\})$/;

/** The calls to the host, as text. */
const received: string[] = [];
let fixture: ControlFixture;
let tenant: Tenant;
let adminToken: string;
beforeAll(async () => {
  fixture = await ControlFixture.open(listened(new FakeHost()));
  tenant = await makeTenant(fixture, "tenants");
  adminToken = (await createAdminToken(fixture, { name: "hostile" })).secret;
  received.length = 0;
});
afterAll(() => fixture[Symbol.asyncDispose]());

function listened(host: FakeHost): FakeHost {
  return new Proxy(host, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        received.push(JSON.stringify([name, ...args]));
        return value.apply(target, args);
      };
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}

/** All ways to call a route with `word`, each with the word in one place and valid values in all others. */
function* questions(route: string, word: string) {
  const [, path = ""] = route.split(" ");
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as keyof Named);
  const filled = (names: Named) =>
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name as keyof Named]));
  for (const name of inPath) yield { path: filled({ ...tenant.names, [name]: word }), body: undefined };
  for (const name of Object.keys(tenant.names) as (keyof Named)[]) {
    const plain = WALK[route]?.ask?.(tenant.names, tenant.names) ?? [];
    const request = WALK[route]?.ask?.({ ...tenant.names, [name]: word }, tenant.names) ?? [];
    for (const [at, { body, query = {} }] of request.entries()) {
      // Only requests that contain the word.
      if (Bun.deepEquals(plain[at], request[at])) continue;
      const search = new URLSearchParams(query).toString();
      const sent = body === undefined ? undefined : JSON.stringify(body);
      yield { path: `${filled(tenant.names)}${search === "" ? "" : `?${search}`}`, body: sent };
    }
  }
}

const ROUTES = routes
  .map(({ method, path, auth }) => ({ route: `${method} ${path}`, auth }))
  .filter(({ route }) => WALK[route]?.namesNothing !== true);

describe("no hostile name finds anything", () => {
  test.each(HOSTILE.map((word) => [word.slice(0, 40), word]))("%j", async (_, word) => {
    const faults: string[] = [];
    let requestCount = 0;
    for (const { route, auth } of ROUTES) {
      const [method = ""] = route.split(" ");
      for (const { path, body } of questions(route, word)) {
        const headers = auth === "admin" ? { "X-Admin-Token": adminToken } : headersOf(auth, tenant.credentials);
        const init: RequestInit = { method, headers };
        if (body !== undefined) init.body = body;
        const response = await fixture.control.handle(new Request(`http://localhost${path}`, init));
        const text = await response.text();
        requestCount++;
        const isRefused = [400, 403, 404, 405].includes(response.status);
        // A build fails at its base, when its turn comes; the host must not hear of that either.
        const isLater = response.status === 202 && body?.includes("fromTemplate") === true;
        const isNothing = response.status === 200 && method === "GET" && NOTHING.test(text);
        if (!isRefused && !isNothing && !isLater)
          faults.push(`${method} ${path} ${body}: ${response.status} ${text}`.slice(0, 300));
      }
    }
    expect(faults).toEqual([]);
    expect(requestCount).toBeGreaterThan(60);
    await fixture.control.settled();
    expect(received.filter((call) => call.includes(JSON.stringify(word).slice(1, -1)))).toEqual([]);
  });
});
