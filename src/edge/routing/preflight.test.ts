import { afterEach, beforeEach, expect, test } from "bun:test";
import { EdgeUnderTest } from "../testing/edge-under-test.ts";

let edge: EdgeUnderTest;
beforeEach(() => {
  edge = new EdgeUnderTest();
});
afterEach(() => edge[Symbol.asyncDispose]());

function ask(method: string, headers: Record<string, string>): Promise<Response> {
  return fetch(`http://127.0.0.1:${edge.port}/process.Process/Start`, { method, headers });
}

const question = { origin: "https://a.test", "access-control-request-method": "POST" };

test("a page may send the routing headers and all others that it asks for", async () => {
  const request = "connect-protocol-version, E2b-Sandbox-Id,x-access-token";
  const response = await ask("OPTIONS", { ...question, "access-control-request-headers": request });
  expect(response.status).toBe(204);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "access-control-allow-origin": "*",
    "access-control-allow-headers": request,
    "access-control-allow-methods": expect.stringContaining("POST"),
    "access-control-max-age": "7200",
  });
  expect(edge.lookups).toBe(0);
});

test.each([
  ["a question about other headers", "OPTIONS", { ...question, "access-control-request-headers": "x-api-key" }],
  ["a question about no headers", "OPTIONS", question],
  ["no question", "OPTIONS", { "access-control-request-headers": "e2b-sandbox-id" }],
  ["another method", "POST", { ...question, "access-control-request-headers": "e2b-sandbox-id" }],
] as [string, string, Record<string, string>][])("%s is no preflight for a sandbox", async (_what, method, headers) => {
  expect(await (await ask(method, headers)).text()).toBe("management");
});
