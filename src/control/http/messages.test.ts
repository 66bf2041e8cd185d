/** Error messages for invalid values: the field, its limit, and the value received. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { routes } from "../routes/routes.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { innermost } from "./validation.ts";

const WEBHOOK = { name: "w", url: "https://example.com/", events: ["sandbox.lifecycle.created"], signatureSecret: "s" };
const INT64 = "an integer from 0 to 9223372036854775807";
const LEVELS = '"debug", "info", "warn", "error"';

let fixture: ControlFixture;
let id: string;
let webhook: string;
beforeAll(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({ timeout: 3600 });
  webhook = ((await fixture.call("POST", "/events/webhooks", WEBHOOK)).body as unknown as { id: string }).id;
});
afterAll(() => fixture[Symbol.asyncDispose]());

const actual = (path: string) =>
  path.replace("{sandboxID}", id).replace("{webhookID}", webhook).replace("{templateID}", "none");

describe("a query", () => {
  test.each([
    ["/sandboxes/{sandboxID}/logs", "start=9223372036854775808", `start must be ${INT64}, got 9223372036854775808`],
    ["/sandboxes/{sandboxID}/logs", "start=-1", `start must be ${INT64}, got -1`],
    ["/sandboxes/{sandboxID}/logs", "start=1.5", `start must be ${INT64}, got "1.5"`],
    ["/sandboxes/{sandboxID}/logs", "start=", `start must be ${INT64}, got ""`],
    ["/sandboxes/{sandboxID}/logs", "start=soon", `start must be ${INT64}, got "soon"`],
    ["/sandboxes/{sandboxID}/logs", `start=${"9".repeat(400)}`, `start must be ${INT64}, got ${"9".repeat(64)}…`],
    ["/sandboxes/{sandboxID}/logs", "limit=-1", "limit must be an integer from 0 to 2147483647, got -1"],
    [
      "/v2/sandboxes/{sandboxID}/logs",
      "cursor=9223372036854775808",
      `cursor must be ${INT64}, got 9223372036854775808`,
    ],
    ["/v2/sandboxes/{sandboxID}/logs", "cursor=-0.5", `cursor must be ${INT64}, got "-0.5"`],
    ["/v2/sandboxes/{sandboxID}/logs", "limit=1001", "limit must be an integer from 0 to 1000, got 1001"],
    ["/v2/sandboxes/{sandboxID}/logs", "level=loud", `level must be one of ${LEVELS}, got "loud"`],
    ["/v2/sandboxes/{sandboxID}/logs", "direction=", 'direction must be one of "forward", "backward", got ""'],
    ["/v2/sandboxes/{sandboxID}/logs", `search=${"x".repeat(257)}`, "search must have at most 256 characters, got 257"],
    ["/sandboxes/{sandboxID}/metrics", "end=1e5", `end must be ${INT64}, got "1e5"`],
    ["/sandboxes/metrics", "", "sandbox_ids must be a comma-separated list, got nothing"],
    ["/sandboxes/metrics", "sandbox_ids=", "sandbox_ids must be a comma-separated list, got nothing"],
    ["/sandboxes/metrics", "sandbox_ids=a,B", 'sandbox_ids must consist of a-z and 0-9, got "B"'],
    ["/sandboxes/metrics", "sandbox_ids=a,a", "sandbox_ids must name each sandbox once"],
    [
      "/sandboxes/metrics",
      `sandbox_ids=${Array.from({ length: 101 }, (_, at) => `i${at}`)}`,
      "sandbox_ids must have at most 100 entries, got 101",
    ],
    ["/v2/sandboxes", "limit=0", "limit must be an integer from 1 to 100, got 0"],
    ["/v2/sandboxes", "limit=9223372036854775807", "limit must be an integer from 1 to 100, got 9223372036854775807"],
    ["/v2/sandboxes", "state=dead", 'state must be one of "running", "paused", got "dead"'],
    [
      "/v2/sandboxes",
      "startedAfter=yesterday",
      'startedAfter must be a time such as 2027-01-15T08:00:00Z, got "yesterday"',
    ],
    ["/snapshots", "sandboxID=A", 'sandboxID must consist of a-z and 0-9, got "A"'],
    ["/events/sandboxes", "offset=-1", "offset must be an integer from 0 to 2147483647, got -1"],
    ["/events/sandboxes", "orderAsc=1", 'orderAsc must be one of "true", "false", got "1"'],
    ["/events/webhooks/{webhookID}/deliveries", "end=9", 'end must be a time such as 2027-01-15T08:00:00Z, got "9"'],
  ])("%s?%s", async (path, query, complaint) => {
    const { status, body } = await fixture.call("GET", `${actual(path)}?${query}`);
    expect([status, body.message]).toEqual([400, `validation error: ${complaint}`]);
  });

  test.each([
    ["/sandboxes/{sandboxID}/logs", "start=9223372036854775807"],
    ["/sandboxes/{sandboxID}/logs", "start=0007"],
    ["/v2/sandboxes/{sandboxID}/logs", "cursor=9223372036854775807"],
    ["/sandboxes/{sandboxID}/metrics", "start=0&end=9223372036854775807"],
  ])("%s?%s is taken", async (path, query) => {
    expect((await fixture.call("GET", `${actual(path)}?${query}`)).status).toBe(200);
  });
});

describe("a body", () => {
  test.each([
    [
      "/sandboxes",
      '{"templateID":"base","timeout":9007199254740992}',
      "timeout must be at most 2147483647, got 9007199254740992",
    ],
    ["/sandboxes", '{"templateID":"base","timeout":1e999}', "timeout must be at most 2147483647, got Infinity"],
    ["/sandboxes", '{"templateID":"base","timeout":-1e999}', "timeout must be at least 0, got -Infinity"],
    ["/sandboxes", '{"templateID":""}', "templateID must have at least 1 character, got 0"],
    ["/sandboxes", '{"templateID":[]}', "templateID must be a string, got an array"],
    ["/sandboxes", '{"templateID":null}', "templateID must be a string, got null"],
    ["/sandboxes", '{"templateID":"base","network":{"allowOut":[7]}}', "network.allowOut.0 must be a string, got 7"],
    ["/sandboxes/{sandboxID}/timeout", "{}", "timeout must be an integer, got nothing"],
    ["/sandboxes/{sandboxID}/timeout", '{"timeout":true}', "timeout must be an integer, got a boolean"],
    [
      "/sandboxes/{sandboxID}/refreshes",
      '{"duration":1e20}',
      "duration must be at most 3600, got 100000000000000000000",
    ],
    ["/v2/sandboxes/{sandboxID}/connect", '{"timeout":0}', "timeout must be at least 1, got 0"],
    ["/sandboxes/{sandboxID}/fork", '{"count":9007199254740992}', "count must be at most 100, got 9007199254740992"],
    [
      "/sandboxes/{sandboxID}/snapshots",
      `{"name":"${"n".repeat(129)}"}`,
      "name must have at most 128 characters, got 129",
    ],
    ["/events/webhooks", JSON.stringify({ ...WEBHOOK, events: [] }), "events must have at least 1 entry, got 0"],
    ["/events/webhooks", JSON.stringify({ ...WEBHOOK, name: "a\u0000" }), "name must not hold NUL"],
    [
      "/events/webhooks",
      JSON.stringify({ ...WEBHOOK, signatureSecret: "hunter2".repeat(40) }),
      "signatureSecret must have at most 256 characters, got 280",
    ],
  ])("POST %s %s", async (path, sent, complaint) => {
    const { status, body } = await fixture.call("POST", actual(path), sent);
    expect([status, body.message]).toEqual([400, `validation error: ${complaint}`]);
  });
});

/** What no message may contain: the library's words, a type that was right, an empty list, a value without a limit. */
const REFUSED = /Invalid input|expected|received|invalid_|undefined|\bNaN\b|one of:? *(?:,|$)|9007199254740991/;
const ODD_QUERIES = ["", "x", "1.5", "-1", "9223372036854775808", "1e5", "2026-01-01", "\u0000", ",", "__proto__"];
const ODD_VALUES = ["", "x", "\u0000", 1.5, -1, 2 ** 53, -(2 ** 53), true, [], {}, [null], [7], [{}], { a: 1 }];

test("every invalid value of any parameter or field gets a message that names the problem", async () => {
  const seen: string[] = [];
  const note = (where: string, { status, body }: Awaited<ReturnType<typeof fixture.call>>, value: unknown) => {
    expect(status, where).toBeLessThan(500);
    if (status < 400) return;
    seen.push(body.message);
    expect(body.message, where).not.toMatch(REFUSED);
    expect(body.message.length, where).toBeLessThan(600);
    if (typeof value === "string" && / must be a string/.test(body.message)) throw new Error(`${where}: it is one`);
  };
  for (const route of routes) {
    for (const name of Object.keys(route.query?.shape ?? {})) {
      for (const value of [...ODD_QUERIES, "x".repeat(5_000)]) {
        const where = `${actual(route.path)}?${name}=${encodeURIComponent(value)}`;
        note(where.slice(0, 200), await fixture.call(route.method, where), value);
      }
    }
    const schema = route.body && innermost(route.body.schema);
    if (!(schema instanceof z.ZodObject)) continue;
    for (const name of Object.keys(schema.shape)) {
      for (const value of [...ODD_VALUES, "x".repeat(9_000)]) {
        const usual = {
          ...WEBHOOK,
          templateID: "none",
          timeout: 60,
          target: "none",
          tags: ["v1"],
          alias: "none",
          value: "v",
        };
        // For another sandbox, so that none is paused or ended on the way.
        const path = actual(route.path).replace(id, "i0");
        const reply = await fixture.call(route.method, path, { ...usual, [name]: value });
        note(`${route.method} ${route.path} ${name} ${JSON.stringify(value).slice(0, 40)}`, reply, value);
      }
    }
  }
  expect(seen.length).toBeGreaterThan(300);
});
