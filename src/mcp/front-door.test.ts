/** Access to the gateway, and responses to requests that belong to no session. */
import { expect, test } from "bun:test";
import { SESSIONS_MAX } from "./front-door.ts";
import { gatewayOfFile, rawSession, stub } from "./testing/gateway-of-file.ts";

const gateway = gatewayOfFile([stub("ann")]);

async function refusalOf(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as { error: { message: string } };
  return [response.status, error.message];
}

test.each([
  ["no token", {}],
  ["another token", { authorization: "Bearer other" }],
  ["another scheme", { authorization: "Basic token-of-the-test" }],
  ["an empty token", { authorization: "Bearer " }],
  ["more than the token", { authorization: "Bearer token-of-the-test2" }],
])("%s: 401 for every path and method", async (_, headers) => {
  for (const [path, method] of [
    ["/mcp", "POST"],
    ["/mcp", "GET"],
    ["/mcp", "DELETE"],
    ["/other", "GET"],
  ] as const) {
    const response = await fetch(new URL(path, gateway().url), { method, headers: headers as Record<string, string> });
    expect(response.headers.get("www-authenticate")).toBe('Bearer realm="mcp-gateway"');
    expect((await refusalOf(response))[0]).toBe(401);
  }
});

test("a page of another origin may send requests (CORS)", async () => {
  const request = await fetch(gateway().url, { method: "OPTIONS" });
  expect(request.status).toBe(204);
  expect(request.headers.get("access-control-allow-headers")).toContain("authorization");
  const refused = await fetch(gateway().url);
  expect(refused.headers.get("access-control-allow-origin")).toBe("*");
});

test("an unknown path, invalid body or missing session gets an error with the remedy", async () => {
  const { url, headers } = gateway();
  const ask = async (init: RequestInit & { headers?: Record<string, string> } = {}, path = "/mcp") =>
    await refusalOf(await fetch(new URL(path, url), { ...init, headers: { ...headers, ...init.headers } }));
  expect(await ask({}, "/")).toEqual([404, "the gateway has nothing but /mcp"]);
  expect(await ask({ method: "POST", body: "{" })).toEqual([400, "the body is not JSON"]);
  expect(await ask({ method: "POST", body: "{}" })).toEqual([
    400,
    "no session; begin one with initialize, then send Mcp-Session-Id",
  ]);
  expect(await ask({ headers: { "mcp-session-id": "x" } })).toEqual([
    404,
    "no such session; begin another one with initialize",
  ]);
});

test("a session ends with DELETE", async () => {
  const session = await rawSession(gateway());
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  expect(await (await session.send("POST", ping)).text()).toContain('"result":{}');
  expect((await session.send("DELETE")).status).toBe(200);
  expect((await refusalOf(await session.send("POST", ping)))[0]).toBe(404);
});

test("a stream begins at once, before there is a message", async () => {
  const session = await rawSession(gateway());
  const stream = await session.send("GET");
  expect([stream.status, stream.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const second = await session.send("GET");
  expect((await refusalOf(second))[0]).toBe(409);
  await session.send("DELETE");
  expect(await stream.text()).toBe(": here\n\n");
});

test("above the session limit, the session with the longest idle time ends", async () => {
  const [idle, used] = [await rawSession(gateway()), await rawSession(gateway())];
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  expect((await used.send("POST", ping)).status).toBe(200);
  await Promise.all(Array.from({ length: SESSIONS_MAX - 1 }, () => rawSession(gateway())));
  expect((await idle.send("POST", ping)).status).toBe(404);
  expect((await used.send("POST", ping)).status).toBe(200);
});

test("session ids are random", async () => {
  const ids = await Promise.all(Array.from({ length: 5 }, async () => (await rawSession(gateway())).id));
  expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true);
  expect(new Set(ids).size).toBe(5);
});
