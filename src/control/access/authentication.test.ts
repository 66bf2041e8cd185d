import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { routes } from "../routes/routes.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { createAccessToken, createApiKey, maskedSecret, revokeApiKey } from "./keys.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function statusWith(headers: Record<string, string>, path = "/sandboxes"): Promise<[number, string]> {
  const response = await fixture.control.handle(new Request(`http://localhost${path}`, { headers }));
  const body = await response.json();
  return [response.status, body.message];
}

describe("an API key", () => {
  test.each([
    [{}, "is missing"],
    [{ "X-API-Key": "" }, "is missing"],
    [{ Authorization: "Bearer e2b_0123" }, "holds an API key; send it as X-API-Key"],
    [{ Authorization: "Bearer sk_e2b_0123" }, "an access token also needs X-Team-ID"],
    [{ Authorization: "Bearer sk_e2b_0123", "X-Team-ID": "t" }, "no user has this token"],
    [{ "X-Admin-Token": "0123", "X-Team-ID": "t" }, "admin tokens start with sandlot_admin_"],
    [{ Authorization: "Basic x" }, "is missing"],
    [{ "X-API-Key": "sk_e2b_0123" }, "holds an access token"],
    [{ "X-API-Key": "Bearer sk_e2b_0123" }, "holds an access token"],
    [{ "X-API-Key": "Bearer e2b_0123" }, "is malformed; API keys start with e2b_"],
    [{ "X-API-Key": "0123" }, "is malformed; API keys start with e2b_"],
    [{ "X-API-Key": "e2b_xyz" }, "40 hex characters"],
    [{ "X-API-Key": `e2b_${"a".repeat(39)}` }, "40 hex characters"],
    [{ "X-API-Key": `e2b_${"a".repeat(41)}` }, "40 hex characters"],
    [{ "X-API-Key": `e2b_${"a".repeat(39)}g` }, "40 hex characters"],
    [{ "X-API-Key": `e2b_${"a".repeat(40)}` }, "no team has this key"],
  ])("%j is a 401 with the reason", async (headers, reason) => {
    const [status, message] = await statusWith(headers as Record<string, string>);
    expect(status).toBe(401);
    expect(message).toContain(reason);
    expect(message).not.toContain("aaaa");
  });

  test("is checked before anything else of the request", async () => {
    const request = new Request("http://localhost/sandboxes", { method: "POST", body: "{not json" });
    expect((await fixture.control.handle(request)).status).toBe(401);
  });

  test("is rejected as soon as it is revoked", async () => {
    const { secret, key } = await createApiKey(fixture, {
      teamId: fixture.firstRun.teamId,
      name: "short-lived",
      createdBy: null,
    });
    expect((await statusWith({ "x-api-key": secret }))[0]).toBe(200);
    await revokeApiKey(fixture, fixture.firstRun.teamId, key.id);
    expect((await statusWith({ "x-api-key": secret }))[0]).toBe(401);
    await expect(revokeApiKey(fixture, fixture.firstRun.teamId, key.id)).rejects.toMatchObject({ status: 404 });
  });

  test("is listed masked, with its last use, and stored only as a hash", async () => {
    await fixture.advance(5_000);
    await fixture.call("GET", "/sandboxes");
    await fixture.advance(59_999);
    await fixture.call("GET", "/sandboxes");
    const [key] = await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId);
    expect(key).toMatchObject({
      name: "first key",
      createdBy: fixture.firstRun.userId,
      createdAt: NOW,
      lastUsedAt: NOW + 5_000,
    });
    expect(key && maskedSecret("e2b_", key)).toBe(`e2b_${fixture.apiKey.slice(4, 6)}…${fixture.apiKey.slice(-4)}`);
    expect(JSON.stringify(key)).not.toContain(fixture.apiKey.slice(4));
    await fixture.advance(1);
    await fixture.call("GET", "/sandboxes");
    expect((await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId))[0]?.lastUsedAt).toBe(NOW + 65_000);
  });
});

describe("an access token", () => {
  test("lists the user's teams, each with a key that works", async () => {
    const { secret } = await createAccessToken(fixture, { userId: fixture.firstRun.userId, name: "cli" });
    const response = await fixture.control.handle(
      new Request("http://localhost/teams", { headers: { Authorization: `Bearer ${secret}` } }),
    );
    expect(response.status).toBe(200);
    const [team, ...others] = await response.json();
    expect(others).toEqual([]);
    expect(team).toEqual({
      teamID: fixture.firstRun.teamId,
      name: "default",
      apiKey: expect.any(String),
      isDefault: true,
    });
    expect((await statusWith({ "X-API-Key": team.apiKey }))[0]).toBe(200);
  });

  test.each([
    [{}, "is missing"],
    [{ Authorization: "Basic x" }, "is malformed"],
    [{ Authorization: "Bearer e2b_0123" }, "holds an API key"],
    [{ "X-API-Key": "e2b_0123" }, "takes no API key: send an access token"],
    [{ "X-API-Key": "sk_e2b_0123" }, "holds an access token; send it as Authorization: Bearer"],
    [{ Authorization: `Bearer sk_e2b_${"0".repeat(40)}` }, "no user has this token"],
  ])("%j is a 401 with the reason", async (headers, reason) => {
    const [status, message] = await statusWith(headers as Record<string, string>, "/teams");
    expect([status, message]).toEqual([401, expect.stringContaining(reason)]);
    expect(message).not.toContain("0123");
  });

  test("cannot be replaced by an API key", async () => {
    expect((await statusWith({ "X-API-Key": fixture.apiKey }, "/teams"))[0]).toBe(401);
  });
});

test("every route without an exemption needs authentication", async () => {
  const open = [];
  for (const route of routes) {
    const url = `http://localhost${route.path.replaceAll(/\{\w+\}/g, "i0")}`;
    const response = await fixture.control.handle(new Request(url, { method: route.method }));
    if (response.status !== 401) open.push(`${route.method} ${route.path}`);
  }
  // Only its own signature opens the last one.
  expect(open).toEqual(["GET /health", "GET /openapi.json", "PUT /templates/{templateID}/files/{hash}"]);
});
