/** What all responses have in common. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { jsonLog } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import { Logins } from "../access/logins.ts";
import { RequestBudgets } from "../budgets/request-rates.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { createDispatch } from "./dispatch.ts";
import { routesWith } from "./route.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("errors are JSON with a numeric code", () => {
  test.each([
    ["GET", "/", 404],
    ["GET", "/nothing/here", 404],
    ["GET", "/sandboxes/", 404],
    ["GET", "/sandboxes%2Fi0", 404],
    ["POST", "/sandboxes/i0/unknown", 404],
    ["PUT", "/sandboxes", 405],
    ["PATCH", "/sandboxes/i0", 405],
    ["GET", "/sandboxes/i0/timeout", 405],
    ["DELETE", "/health", 405],
  ])("%s %s is %p", async (method, path, status) => {
    expect((await fixture.call(method, path)).status).toBe(status);
  });

  test.each([
    ["GET", "/clusters/c/rigs", "no clusters"],
    ["PUT", "/clusters/c/rigs/r/capacity", "no clusters"],
  ])("%s %s is rejected by name, with the alternative", async (method, path, instead) => {
    const { status, body } = await fixture.call(method, path);
    expect([status, body.message]).toEqual([501, expect.stringContaining("is not part of this server")]);
    expect(body.message).toContain(instead);
  });

  test("501, 503 and 507 are logged without a stack", async () => {
    await fixture.call("GET", "/clusters/c/rigs");
    const logged = () => JSON.parse(fixture.logLines.at(-1) ?? "");
    expect(logged()).toMatchObject({ level: "info", status: 501, error: expect.stringContaining("no clusters") });
    const refusals = [
      new Fault(507, "the disk is full", { cause: new Error("ENOSPC") }),
      new Fault(503, "the template is being built"),
    ];
    for (const refusal of refusals) {
      fixture.host.beforeCreate = async () => {
        throw refusal;
      };
      await fixture.call("POST", "/sandboxes", { templateID: "base" });
      const { status, message } = refusal;
      expect(logged()).toMatchObject({ level: "warn", status, error: expect.stringContaining(message) });
      expect(logged().error).not.toContain("\n");
    }
  });

  test("405 lists the allowed methods", async () => {
    expect((await fixture.call("PUT", "/sandboxes")).headers.get("allow")).toBe("POST, GET, HEAD, OPTIONS");
    expect((await fixture.call("POST", "/sandboxes/i0")).headers.get("allow")).toBe("GET, HEAD, DELETE, OPTIONS");
  });

  test.each(["{", "[1,", "nonsense", '{"templateID":"base"', '"\\ud800'])("body %p is not JSON", async (body) => {
    const reply = await fixture.call("POST", "/sandboxes", body);
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("not valid JSON")]);
  });

  test("a body that is not UTF-8 is refused", async () => {
    const request = new Request("http://localhost/sandboxes", {
      method: "POST",
      headers: { "X-API-Key": fixture.apiKey },
      body: new Uint8Array([0x22, 0xff, 0x22]),
    });
    expect((await fixture.control.handle(request)).status).toBe(400);
  });

  test.each(["null", "[]", "7", '"text"'])("body %s is not an object", async (body) => {
    const reply = await fixture.call("POST", "/sandboxes", body);
    expect(reply.status).toBe(400);
    expect(reply.body.message).toStartWith("validation error: the body must be an object, got ");
  });

  test("a missing body is rejected where one is required", async () => {
    expect((await fixture.call("POST", "/sandboxes")).body.message).toContain("no body");
    expect((await fixture.call("POST", "/sandboxes", "")).status).toBe(400);
  });

  test("a key in a path is masked, in the log and in the answer", async () => {
    const { body } = await fixture.call("GET", `/api-keys/${fixture.apiKey}/x/y`);
    const shown = `${fixture.apiKey.slice(0, 6)}…${fixture.apiKey.slice(-4)}`;
    expect(body.message).toContain(`/api-keys/${shown}/x/y`);
    expect(JSON.parse(fixture.logLines.at(-1) ?? "").path).toBe(`/api-keys/${shown}/x/y`);
    expect(fixture.logLines.join()).not.toContain(fixture.apiKey);
  });

  test("an unexpected error is a 500 without details; the log has it under the request's id", async () => {
    fixture.store.sandboxes.byId = async () => {
      throw new Error("secret detail", { cause: new Error("disk on fire") });
    };
    const reply = await fixture.call("GET", "/sandboxes/i0");
    expect(reply.status).toBe(500);
    expect(JSON.stringify(reply.body)).not.toContain("secret detail");
    const line = JSON.parse(fixture.logLines.at(-1) ?? "");
    expect(line).toMatchObject({ level: "error", status: 500, request: reply.headers.get("x-request-id") });
    expect(line.error).toContain("secret detail");
    expect(line.error).toContain("disk on fire");
  });
});

describe("bodies", () => {
  const streamed = (chunks: Uint8Array[]) =>
    new Request("http://localhost/sandboxes", {
      method: "POST",
      headers: { "X-API-Key": fixture.apiKey },
      body: new ReadableStream<Uint8Array>({
        pull(controller) {
          const chunk = chunks.shift();
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        },
      }),
    });

  test("without a length, in pieces, are read", async () => {
    const pieces = [...'{"templateID":"base","metadata":{"ü":"€"}}'].map((piece) => new TextEncoder().encode(piece));
    expect((await fixture.control.handle(streamed(pieces))).status).toBe(201);
  });

  test.each([
    "application/xml",
    "text/xml; charset=utf-8",
    "application/soap+xml",
    "multipart/form-data; boundary=x",
    "Text/HTML",
    "image/png",
  ])("of type %p are rejected with 415, which names the expected type", async (type) => {
    const body = { templateID: "base" };
    const reply = await fixture.call("POST", "/sandboxes", body, { "Content-Type": type });
    const shown = type.split(";")[0]?.toLowerCase() ?? "";
    expect([reply.status, reply.body.message]).toEqual([415, expect.stringContaining(`"${shown}"`)]);
    expect(reply.body.message).toContain("application/json");
    expect(fixture.host.running).toEqual([]);
  });

  test("that are a form are refused with 415", async () => {
    const headers = { "X-API-Key": fixture.apiKey, "Content-Type": "application/x-www-form-urlencoded" };
    const request = new Request("http://localhost/sandboxes", { method: "POST", headers, body: "templateID=base" });
    expect((await fixture.control.handle(request)).status).toBe(415);
  });

  test("of an endless type are rejected, and the error quotes its beginning", async () => {
    const headers = { "Content-Type": `multipart/${"x".repeat(5_000)}` };
    const reply = await fixture.call("POST", "/sandboxes", { templateID: "base" }, headers);
    expect(reply.status).toBe(415);
    expect(reply.body.message.length).toBeLessThan(200);
  });

  test.each([
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "application/vnd.api+json",
    "text/plain;charset=UTF-8",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "nonsense",
  ])("of type %p are read as JSON", async (type) => {
    const body = { templateID: "base" };
    expect((await fixture.call("POST", "/sandboxes", body, { "Content-Type": type })).status).toBe(201);
  });

  test("without a type are read as JSON, and a missing body needs no type", async () => {
    expect((await fixture.control.handle(streamed([new TextEncoder().encode('{"templateID":"base"}')]))).status).toBe(
      201,
    );
    const id = await fixture.create();
    const form = { "Content-Type": "application/x-www-form-urlencoded" };
    expect((await fixture.call("POST", `/sandboxes/${id}/pause`, "", form)).status).toBe(204);
  });
});

describe("input and output of a route", () => {
  const requests: string[] = [];
  const facts = {
    auth: "none",
    summary: "A route of this test",
    success: [{ status: 202, description: "Taken" }],
  } as const;
  const route = routesWith<object>();
  const routes = [
    route("GET /things/list", { ...facts, handle: async () => ({ status: 200, body: "list" }) }),
    route("GET /things/{name}", {
      ...facts,
      async handle({ params }) {
        requests.push(params.name);
        return undefined;
      },
    }),
  ];
  const ask = (path: string) => {
    const { store, clock, ids } = fixture;
    const audit = { note: () => undefined, noteRecorded: () => undefined };
    const dispatch = createDispatch({
      routes,
      absent: {},
      services: undefined,
      store,
      clock,
      ids,
      log: jsonLog(() => undefined),
      logins: new Logins({ ...fixture.services }, audit, new Uint8Array(32)),
      pages: [],
      budgets: new RequestBudgets(clock),
      audit,
      isReady: () => true,
      recorded: async () => undefined,
    });
    return dispatch(new Request(`http://localhost${path}`));
  };

  test("a segment is decoded once, after the path was split", async () => {
    for (const path of ["/things/team%2Fx%3Adefault", "/things/100%2525", "/things/%C3%A9+a"]) await ask(path);
    expect(requests).toEqual(["team/x:default", "100%25", "é+a"]);
    expect((await ask("/things/%E0%A4")).status).toBe(400);
    expect(await (await ask("/things/list?x=/things/y")).json()).toBe("list");
  });

  test("a success without a body has Content-Length 0", async () => {
    const response = await ask("/things/x");
    expect([response.status, response.headers.get("content-length"), await response.text()]).toEqual([202, "0", ""]);
  });
});

describe("over a socket", () => {
  test("every status arrives with a body of its Content-Length", async () => {
    using server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: (request) => fixture.control.handle(request) });
    const health = await fetch(new URL("/health", server.url));
    expect([health.status, await health.json()]).toEqual([200, { status: "ok" }]);
    const head = await fetch(new URL("/health", server.url), { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const missing = await fetch(new URL("/sandboxes/i%2F0", server.url), { headers: { "X-API-Key": fixture.apiKey } });
    expect([missing.status, (await missing.json()).code]).toEqual([400, 400]);
  });
});

describe("a client that disconnects while it sends its body", () => {
  test.each([
    ["with a length", "Content-Length: 100\r\n\r\n12345"],
    ["in chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"],
  ])("%s is not a server error, and the log has the reason", async (_, rest) => {
    let handled: Promise<Response> | undefined;
    const arrived = Promise.withResolvers<void>();
    using server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch(request) {
        handled = fixture.control.handle(request);
        arrived.resolve();
        return handled;
      },
    });
    const { hostname = "", port = 0 } = server;
    const socket = await Bun.connect({ hostname, port, socket: { data: () => undefined } });
    socket.write(`POST /sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${fixture.apiKey}\r\n${rest}`);
    await arrived.promise;
    socket.end();
    await handled;
    const line = JSON.parse(fixture.logLines.at(-1) ?? "");
    expect(line).toMatchObject({ level: "info", event: "request", status: 499, team: "default" });
    expect(line.error).toBe("the client closed the connection in its body, after 5 bytes of it");
    expect(fixture.host.running).toEqual([]);
  });
});

describe("CORS", () => {
  test("a preflight is answered for any path, without a key", async () => {
    const response = await fixture.control.handle(new Request("http://localhost/v2/sandboxes", { method: "OPTIONS" }));
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-methods")).toContain("DELETE");
    const headers = response.headers.get("access-control-allow-headers")?.toLowerCase().split(", ");
    for (const header of ["x-api-key", "authorization", "content-type", "lang", "package_version", "sdk_runtime"]) {
      expect(headers).toContain(header);
    }
  });

  test("pages may read the exposed headers, also of errors", async () => {
    for (const path of ["/v2/sandboxes", "/nothing"]) {
      const { headers } = await fixture.call("GET", path);
      expect(headers.get("access-control-allow-origin")).toBe("*");
      expect(headers.get("access-control-expose-headers")).toContain("X-Next-Token");
      expect(headers.get("access-control-expose-headers")).toContain("Retry-After");
    }
  });
});

test("an error shows no key that the client put in the wrong place", async () => {
  for (const path of [
    `/sandboxes/${fixture.apiKey}`,
    `/v2/sandboxes?state=${fixture.apiKey}`,
    `/nothing/${fixture.apiKey}`,
  ]) {
    const { status, body } = await fixture.call("GET", path);
    expect([status >= 400, JSON.stringify(body).includes(fixture.apiKey)]).toEqual([true, false]);
  }
});

describe("the log", () => {
  test("has one line for each request with caller, route and status, and no secret", async () => {
    const id = await fixture.create({ secure: true, envVars: { PASSWORD: "hunter2" } });
    const token = (await fixture.store.sandboxes.byId(id))?.tokens[0] ?? "none";
    await fixture.call("GET", `/sandboxes/${id}?signature=v1_abc`);
    await fixture.call("GET", "/sandboxes", undefined, { "X-API-Key": "e2b_wrong" });
    const requests = fixture.logLines.map((line) => JSON.parse(line)).filter((entry) => entry.event === "request");
    expect(requests).toHaveLength(3);
    expect(requests[1]).toEqual({
      time: "2027-01-15T08:00:00.000Z",
      level: "info",
      event: "request",
      request: expect.stringMatching(/^[0-9a-f]{16}$/),
      method: "GET",
      route: "GET /sandboxes/{sandboxID}",
      path: `/sandboxes/${id}`,
      status: 200,
      ms: 0,
      team: "default",
    });
    expect(requests[2]).toMatchObject({ status: 401 });
    const everything = fixture.logLines.join("\n");
    for (const secret of [token, fixture.apiKey, "hunter2", "v1_abc", "e2b_wrong"])
      expect(everything).not.toContain(secret);
  });

  test("has the id that the client chose, unless it could be something else", async () => {
    const idFor = async (given: string) => {
      const request = new Request("http://sandlot.test/health", { headers: { "X-Request-Id": given } });
      const { headers } = await fixture.control.handle(request);
      expect(JSON.parse(fixture.logLines.at(-1) ?? "{}").request).toBe(headers.get("x-request-id"));
      return headers.get("x-request-id");
    };
    expect(await idFor("job-7_b.c")).toBe("job-7_b.c");
    for (const odd of ["a b", "x".repeat(65), 'a"b', "é"]) expect(await idFor(odd)).toMatch(/^[0-9a-f]{16}$/);
  });

  test("truncates a long path", async () => {
    await fixture.call("GET", `/${"x".repeat(10_000)}`);
    expect(fixture.logLines.at(-1)?.length).toBeLessThan(600);
  });
});
