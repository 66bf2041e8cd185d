import { describe, expect, test } from "bun:test";
import { CONTEXTS_MAX } from "./contexts.ts";
import { REQUEST_MAX_BYTES } from "./limits.ts";
import { linesOf, post, scriptedServer } from "./testing/scripted-kernel.ts";

describe("requests", () => {
  test("of clients get the expected responses", async () => {
    await using server = await scriptedServer();
    const health = await fetch(`${server.url}/health?source=x`);
    expect([health.status, await health.json()]).toEqual([200, "OK"]);
    expect(await (await fetch(`${server.url}/contexts`)).json()).toEqual([]);
    const response = await post(`${server.url}/contexts`, {});
    expect(response.status).toBe(200);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    const context = (await response.json()) as { id: string; language: string; cwd: string };
    expect(context).toEqual({ id: expect.any(String), language: "python", cwd: "/home/user" });
    for (const [method, path] of [
      ["POST", `/contexts/${context.id}/restart`],
      ["DELETE", `/contexts/${context.id}`],
    ]) {
      const done = await fetch(server.url + path, { method: method ?? "" });
      expect([done.status, await done.json()]).toEqual([200, null]);
    }
    expect(await (await fetch(`${server.url}/contexts`)).json()).toEqual([]);
  });

  test.each([
    ["GET", "/", 404, { detail: "Not Found" }],
    ["GET", "/contexts/x/y", 404, { detail: "Not Found" }],
    ["GET", "/execute", 405, { detail: "Method Not Allowed" }],
    ["PUT", "/contexts", 405, { detail: "Method Not Allowed" }],
  ])("%s %s gets %d", async (method, path, status, body) => {
    await using server = await scriptedServer();
    const response = await fetch(server.url + path, { method });
    expect([response.status, (await response.json()) as unknown]).toEqual([status, body]);
  });

  test.each([
    ["POST", "/contexts/x%20y/restart", "x y"],
    ["DELETE", "/contexts/%e0%a4%a", "%e0%a4%a"],
    ["DELETE", "/contexts/__proto__", "__proto__"],
  ])("%s %s names an unknown context, which the response repeats", async (method, path, id) => {
    await using server = await scriptedServer();
    const response = await fetch(server.url + path, { method });
    expect([response.status, await response.text()]).toEqual([404, expect.stringContaining(id)]);
  });

  test("of other origins are allowed with any headers", async () => {
    await using server = await scriptedServer();
    const response = await fetch(`${server.url}/execute`, {
      method: "OPTIONS",
      headers: { Origin: "https://a.example", "Access-Control-Request-Headers": "x-access-token,e2b-sandbox-id" },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(response.headers.get("Access-Control-Allow-Headers")).toBe("x-access-token,e2b-sandbox-id");
    expect(response.headers.get("Access-Control-Allow-Methods")).toContain("DELETE");
  });

  test.each<[string, string, string, (string | number)[]]>([
    ["/execute", "{}", "missing", ["body", "code"]],
    ["/execute", '{"code":1}', "type_error", ["body", "code"]],
    ["/execute", '{"code":null}', "type_error", ["body", "code"]],
    ["/execute", '{"code":{"a":1}}', "type_error", ["body", "code"]],
    ["/execute", '{"code":"1","context_id":1}', "type_error", ["body", "context_id"]],
    ["/execute", '{"code":"1","language":[]}', "type_error", ["body", "language"]],
    ["/execute", '{"code":"1","env_vars":{"A":1}}', "type_error", ["body", "env_vars", "A"]],
    ["/execute", '{"code":"1","env_vars":"A=1"}', "type_error", ["body", "env_vars"]],
    ["/execute", "[]", "type_error", ["body"]],
    ["/execute", "{", "json_invalid", ["body"]],
    ["/contexts", '{"cwd":1}', "type_error", ["body", "cwd"]],
  ])("%s with %s does not fit: %s at %p", async (path, body, type, loc) => {
    await using server = await scriptedServer();
    const response = await fetch(server.url + path, { method: "POST", body });
    expect(response.status).toBe(422);
    expect(await response.json()).toEqual({ detail: [{ type, loc, msg: expect.any(String) }] });
  });

  test("that are too large are rejected, and the response arrives", async () => {
    await using server = await scriptedServer();
    const response = await fetch(`${server.url}/execute`, { method: "POST", body: "x".repeat(REQUEST_MAX_BYTES + 1) });
    expect([response.status, await response.text()]).toEqual([413, expect.stringContaining("REQUEST_MAX_BYTES")]);
  });

  test.each<[object, number, string]>([
    [{ code: "say x", context_id: "nobody" }, 404, "nobody"],
    [{ code: "say x", context_id: "nobody", language: "python" }, 400, "context_id and language"],
    [{ code: "say x", language: "cobol" }, 500, "there are python, typescript"],
    [{ code: "say x", language: "constructor" }, 500, "constructor"],
  ])("to execute %j gets %d with text that contains %p", async (body, status, text) => {
    await using server = await scriptedServer();
    const response = await post(`${server.url}/execute`, body);
    expect([response.status, await response.text()]).toEqual([status, expect.stringContaining(text)]);
    expect(response.headers.get("Content-Type")).toStartWith("text/plain");
  });
});

test("contexts are bounded in number, and a removed one frees its place", async () => {
  await using server = await scriptedServer();
  const ids: string[] = [];
  for (let count = 0; count < CONTEXTS_MAX; count++) {
    ids.push(((await (await post(`${server.url}/contexts`, {})).json()) as { id: string }).id);
  }
  expect(new Set(ids).size).toBe(CONTEXTS_MAX);
  const refused = await post(`${server.url}/contexts`, {});
  expect([refused.status, await refused.text()]).toEqual([429, expect.stringContaining("CONTEXTS_MAX")]);
  await fetch(`${server.url}/contexts/${ids[0]}`, { method: "DELETE" });
  expect((await post(`${server.url}/contexts`, {})).status).toBe(200);
});

describe("a language", () => {
  test.each([
    [{}, "python"],
    [{ language: null, context_id: null, env_vars: null }, "python"],
    [{ language: "", context_id: "" }, "python"],
    [{ language: " TS " }, "typescript"],
    [{ language: "TypeScript" }, "typescript"],
  ])("named by %j is %s", async (body, name) => {
    await using server = await scriptedServer();
    const lines = await linesOf(await post(`${server.url}/execute`, Object.assign({ code: "say é" }, body)));
    expect(lines).toEqual([
      { type: "number_of_executions", execution_count: 1 },
      { type: "stdout", text: "é", timestamp: expect.any(String) },
      { type: "end_of_execution" },
    ]);
    expect(await (await fetch(`${server.url}/contexts`)).json()).toEqual([
      { id: expect.any(String), language: name, cwd: "/home/user" },
    ]);
  });

  test("that two clients use first at the same time has one default context", async () => {
    await using server = await scriptedServer();
    const say = () => post(`${server.url}/execute`, { code: "say x" }).then(linesOf);
    await Promise.all([say(), say(), say()]);
    expect(server.kernels).toHaveLength(1);
  });

  test("whose default context was removed gets a new one", async () => {
    await using server = await scriptedServer();
    await linesOf(await post(`${server.url}/execute`, { code: "say x" }));
    const [{ id = "" } = {}] = (await (await fetch(`${server.url}/contexts`)).json()) as { id?: string }[];
    await fetch(`${server.url}/contexts/${id}`, { method: "DELETE" });
    expect(await linesOf(await post(`${server.url}/execute`, { code: "say x" }))).toHaveLength(3);
    expect(server.kernels.map(({ isAlive }) => isAlive)).toEqual([false, true]);
  });

  test("whose kernel does not start is a 500, and the next use tries again", async () => {
    await using server = await scriptedServer();
    server.breakStarts();
    for (let tries = 0; tries < 2; tries++) {
      expect((await post(`${server.url}/execute`, { code: "say x" })).status).toBe(500);
    }
  });
});
