/** Fuzzes the management API: every request gets a response, and none is a server error. */
import { afterAll, beforeAll, expect } from "bun:test";
import { fuzzText } from "../base/testing/fuzz.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { WALK } from "./testing/route-walk.ts";
import { headersOf, makeTenant, type Named, type Tenant } from "./testing/tenant.ts";

/** A tenant makes only so much before its bounds reject everything; by then another one takes over. */
const TENANTS_EVERY = 150;

let fixture: ControlFixture;
let tenant: Tenant;
let requestCount = 0;
let tenants = 0;
beforeAll(async () => {
  fixture = await ControlFixture.open();
});
afterAll(() => fixture[Symbol.asyncDispose]());

/** Names are {name} in examples, so that each works for any tenant. */
const NAMES = new Proxy({} as Named, { get: (_, name) => `{${String(name)}}` });

/** Method, target and body of each route, as one text: lines end where the next part begins. */
const seeds = Object.entries(WALK).flatMap(([route, { ask }]) =>
  (ask?.(NAMES, NAMES) ?? [{}]).map(({ query, body }) => {
    const search =
      query === undefined
        ? ""
        : `?${Object.entries(query)
            .map(([name, value]) => `${name}=${value}`)
            .join("&")}`;
    return `${route}${search}\n${body === undefined ? "" : JSON.stringify(body)}`;
  }),
);
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: it is what people write.
const RICH = [
  ...["templates/{}", "templates/{}/tags", "templates/aliases/{}", "templates/{}/files/x", "sandboxes/{}"].map(
    (path) => `GET /${path.replace("{}", "a".repeat(9_000))}\n`,
  ),
  `DELETE /templates/${"a".repeat(9_000)}\n`,
  'POST /v2/sandboxes\n{"templateID":"base","timeout":60,"metadata":{"a":"b"},"envVars":{"A":"1"},"autoPause":true}',
  'POST /v2/sandboxes\n{"templateID":"base","network":{"allowOut":["*.a.test","1.2.3.0/24"],"denyOut":["0.0.0.0/0"],"egressProxy":{"address":"p.test:1080","username":"u","password":"p"},"httpsPorts":[8443],"maskRequestHost":"localhost:${PORT}"}}',
  'POST /sandboxes\n{"templateID":"base","volumeMounts":[{"name":"{volumeName}","path":"/data"}],"mcp":{"a":{}}}',
  "GET /v2/sandboxes?metadata=a%253Db%2526c%253Dd&state=running,paused&limit=1&nextToken=MjAyNy0wMS0xNVQwODowMDowMC4wMDBaX19pMDEy&order=asc&startedAfter=2027-01-15T08:00:00Z\n",
  "GET /v2/templates?limit=1&nextToken=MTgwMDAwMDAwMDAwMCBhYmM\n",
  "GET /v2/sandboxes/{sandboxID}/logs?cursor=1800000000000&direction=backward&limit=10&level=info&search=x\n",
  "GET /sandboxes/{sandboxID}/metrics?start=1&end=99999999999999999999\n",
  "GET /events/webhooks/{webhookID}/deliveries?cursor=MTgwMDAwMDAwMDAwMF9fYWJj&limit=5&orderAsc=true\n",
  'POST /v2/templates/{templateID}/builds/{buildID}\n{"fromImage":"debian:13","steps":[{"type":"ENV","args":["A","b"]},{"type":"COPY","args":["a","b","user","0644"],"filesHash":null}],"startCmd":"x"}',
];
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: it is what people write.

fuzzText("a request is answered, and never with an unexpected error", {
  seeds: [...seeds, ...RICH],
  async check(text) {
    if (requestCount++ % TENANTS_EVERY === 0) tenant = await makeTenant(fixture, `team-${++tenants}`);
    const named = text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => tenant.names[name as keyof Named] ?? whole);
    const [line = "", ...rest] = named.split("\n");
    const [, method = "GET", target = "/"] = /^([A-Z]{1,10}) ?(.*)$/s.exec(line) ?? [];
    const body = rest.join("\n");
    // A GET has no body, whatever its headers say; and an empty body counts as none.
    const init: RequestInit = { method, headers: { ...headersOf("key", tenant.credentials), ...bearer(target) } };
    if (body !== "" && !/^(?:GET|HEAD)$/i.test(method)) init.body = body;
    let request: Request;
    try {
      request = new Request(`http://localhost${target.startsWith("/") ? "" : "/"}${target}`, init);
    } catch {
      // No client can send that.
      return;
    }
    const response = await fixture.control.handle(request);
    const answer = await response.text();
    expect([response.status < 500 || response.status === 501, answer]).toEqual([true, answer]);
    if (response.status >= 400) {
      expect(Object.keys(JSON.parse(answer)).toSorted().slice(0, 2)).toEqual(["code", "message"]);
      expect(answer.length).toBeLessThan(8_192);
    }
  },
  cases: 800,
});

/** Tokens of users and of volumes go in the same header. */
function bearer(target: string): Record<string, string> {
  return headersOf(target.includes("volumecontent") ? "volume" : "member", tenant.credentials);
}
