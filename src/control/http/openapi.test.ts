import { afterEach, beforeEach, expect, test } from "bun:test";
import { routes } from "../routes/routes.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

test("the document describes exactly the routes there are", async () => {
  const response = await fixture.control.handle(new Request("http://localhost/openapi.json"));
  expect(response.status).toBe(200);
  const document = await response.json();
  expect(document.openapi).toBe("3.1.0");
  const described = Object.entries<Record<string, Record<string, unknown>>>(document.paths).flatMap(
    ([path, operations]) => Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(described.toSorted()).toEqual(routes.map((route) => `${route.method} ${route.path}`).toSorted());
  const ids = Object.values<Record<string, { operationId: string }>>(document.paths)
    .flatMap((operations) => Object.values(operations))
    .map((operation) => operation.operationId);
  expect(new Set(ids).size).toBe(routes.length);
});

test("an operation lists its parameters, responses and authentication", async () => {
  const document = await (await fixture.control.handle(new Request("http://localhost/openapi.json"))).json();
  const create = document.paths["/v2/sandboxes"].post;
  const ofTeam = [
    { AccessTokenAuth: [], TeamAuth: [] },
    { AdminTokenAuth: [], TeamAuth: [] },
  ];
  expect(create.security).toEqual([{ ApiKeyAuth: [] }, ...ofTeam]);
  expect(create.requestBody.content["application/json"].schema).toMatchObject({ required: ["templateID"] });
  expect(create.responses["201"].content["application/json"].schema.required).toContain("envdAccessToken");
  expect(create.responses["503"].content["application/json"].schema).toEqual({ $ref: "#/components/schemas/Error" });
  expect(create.parameters).toMatchObject([{ name: "Idempotency-Key", in: "header", required: false }]);
  const connect = document.paths["/v2/sandboxes/{sandboxID}/connect"].post;
  expect(connect.parameters).toEqual([{ name: "sandboxID", in: "path", required: true, schema: { type: "string" } }]);
  expect(connect.requestBody.required).toBe(false);
  const limit = document.paths["/v2/sandboxes"].get.parameters.find(
    (parameter: { name: string }) => parameter.name === "limit",
  );
  expect(limit).toMatchObject({
    in: "query",
    required: false,
    schema: { type: "integer", minimum: 1, maximum: 100, default: 100 },
  });
  expect(document.paths["/health"].get.security).toEqual([]);
  // Both headers together.
  expect(document.paths["/api-keys"].get.security).toEqual(ofTeam);
  expect(document.paths["/nodes"].get.security).toEqual([{ AdminTokenAuth: [] }]);
  expect(document.components.securitySchemes.TeamAuth).toEqual({ type: "apiKey", in: "header", name: "X-Team-ID" });
});

test.each([
  ["/sandboxes", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/v2/sandboxes", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/sandboxes/{sandboxID}/connect", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/v2/sandboxes/{sandboxID}/connect", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/sandboxes/{sandboxID}/resume", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  // A copy that does not fit is reported as an entry of the response.
  ["/sandboxes/{sandboxID}/fork", [400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/sandboxes/{sandboxID}/pause", [400, 401, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
  ["/sandboxes/{sandboxID}/snapshots", [400, 401, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507]],
])("POST %s lists every error status", async (path, statuses) => {
  const document = await (await fixture.control.handle(new Request("http://localhost/openapi.json"))).json();
  const listed = Object.keys(document.paths[path].post.responses).map(Number);
  expect(listed.filter((status) => status >= 400)).toEqual(statuses);
});

test("every route has a summary of one line", () => {
  for (const route of routes) expect(route.summary).toMatch(/^[A-Z][^\n]{5,100}[^.]$/);
});
