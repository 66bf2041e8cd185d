/** Responses of a sandbox's URL when there is nothing to reach, and requests that it never lets through. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startService } from "../../support/listening.ts";
import { type RawRequest, rawRequest } from "../../support/raw-request.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const RUNTIME = 49983;
const CLOSED = 4444;
const NOBODY = "i00000000000000000000";
const BROWSER = { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", Accept: "text/html,*/*;q=0.8" };
let sandbox: Sandbox;
let token: string;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  token = await runtimeTokenOf(server(), sandbox.sandboxId);
});

const ask = (request: RawRequest) => rawRequest(server().url, request);
const hostOf = (port: number, id = sandbox.sandboxId) => `${port}-${id}.anything.test`;

describe("nothing there", () => {
  test("an unknown sandbox is 502 with these very bytes, on every port", async () => {
    for (const port of [RUNTIME, 80, 3000]) {
      const { status, headers, body } = await ask({ target: "/", host: hostOf(port, NOBODY) });
      expect(status).toBe(502);
      expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(body).toBe(`{"sandboxId":"${NOBODY}","message":"The sandbox was not found","code":502}`);
    }
  });

  test("a closed port is 502 with the port", async () => {
    const { status, body } = await ask({ target: "/", host: hostOf(CLOSED) });
    expect(status).toBe(502);
    expect(Object.keys(JSON.parse(body))).toEqual(["sandboxId", "message", "port", "code"]);
    expect(JSON.parse(body)).toMatchObject({ sandboxId: sandbox.sandboxId, port: CLOSED, code: 502 });
  });

  test("a person's browser gets a page that says the same", async () => {
    const unknown = await ask({ target: "/", host: hostOf(80, NOBODY), headers: BROWSER });
    expect(unknown.status).toBe(502);
    expect(unknown.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(unknown.body).toContain("<title>Sandbox Not Found</title>");
    expect(unknown.body).toContain(NOBODY);
    const closed = await ask({ target: "/", host: hostOf(CLOSED), headers: BROWSER });
    expect(closed.status).toBe(502);
    expect(closed.body).toContain("<title>Closed Port Error</title>");
    expect(closed.body).toContain(String(CLOSED));
  });
});

/** All spellings: src/edge/routing/control-path.test.ts and src/edge/routing/service-lookup.test.ts. */
const CONTROL_TARGETS = ["/control/ping", "//control%2fping", "/init", "/files/%2e%2e/freeze"];

describe("control paths of the runtime", () => {
  test.each(CONTROL_TARGETS)("%s is 404 for every method, with the token or without", async (target) => {
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const headers = { "X-Access-Token": token, "X-Sandlot-Control": "guess", Origin: "https://a.test" };
      const { status, body } = await ask({ method, target, host: hostOf(RUNTIME), headers });
      expect({ method, status }).toEqual({ method, status: 404 });
      if (method === "HEAD") continue;
      expect(Object.keys(JSON.parse(body))).toEqual(["message", "path", "code"]);
    }
  });

  test("they are closed to those who come by headers, too, and in the absolute form", async () => {
    const headers = {
      "E2b-Sandbox-Id": sandbox.sandboxId,
      "E2b-Sandbox-Port": String(RUNTIME),
      "X-Access-Token": token,
    };
    for (const target of ["/control/ping", "//init", "/control%2fping"]) {
      expect((await ask({ target, headers })).status).toBe(404);
      const absolute = `http://${hostOf(RUNTIME)}${target}`;
      expect((await ask({ target: absolute, host: hostOf(RUNTIME) })).status).toBe(404);
      expect((await ask({ target: absolute, headers })).status).toBe(404);
    }
  });

  test("they are refused before anybody looks for the sandbox", async () => {
    expect((await ask({ target: "/init", host: hostOf(RUNTIME, NOBODY) })).status).toBe(404);
  });

  test("a service of the user may have paths of these names", async () => {
    await startService(sandbox, "web-service", 8000);
    for (const target of ["/control/ping", "/init", "/freeze"]) {
      const { status, body } = await ask({ target, host: hostOf(8000) });
      expect(status).toBe(200);
      expect(JSON.parse(body).url).toBe(target);
    }
  });

  test("paths that only look alike reach the runtime, which does not know them", async () => {
    for (const target of ["/initialize", "/init/x", "/INIT", "/controls"]) {
      const { status, body } = await ask({ target, host: hostOf(RUNTIME), headers: { "X-Access-Token": token } });
      expect(status).toBe(404);
      expect(body).not.toContain('"path"');
    }
  });
});

const ENVELOPE = `\u0000\u0000\u0000\u0000\u0025${JSON.stringify({ process: { cmd: "/bin/true", args: [] } })}`;

describe("the runtime's token", () => {
  const json = { "Content-Type": "application/json" };
  const guarded: readonly RawRequest[] = [
    { method: "POST", target: "/process.Process/List", headers: json, body: "{}" },
    {
      method: "POST",
      target: "/process.Process/Start",
      headers: { "Content-Type": "application/connect+json" },
      body: ENVELOPE,
    },
    { method: "POST", target: "/filesystem.Filesystem/Stat", headers: json, body: '{"path":"/etc"}' },
    { method: "GET", target: "/metrics" },
    { method: "GET", target: "/envs" },
    { method: "GET", target: "/files?path=/etc/hostname" },
    {
      method: "POST",
      target: "/files?path=/tmp/up",
      headers: { "Content-Type": "application/octet-stream" },
      body: "x",
    },
  ];

  test.each(guarded)("$method $target opens to it and to nothing else", async (request) => {
    const other = await Sandbox.create(server().options);
    const show = async (shown: Record<string, string>) =>
      await ask({ ...request, host: hostOf(RUNTIME), headers: { ...request.headers, ...shown } });
    const wrong = [
      {},
      "",
      "wrong",
      token.slice(0, -1),
      `${token}0`,
      await runtimeTokenOf(server(), other.sandboxId),
      server().apiKey,
    ];
    for (const value of wrong) {
      const { status, body } = await show(typeof value === "string" ? { "X-Access-Token": value } : {});
      expect(status).toBe(401);
      expect(JSON.parse(body)).toEqual({ code: 401, message: expect.any(String) });
    }
    expect((await show({ "X-Access-Token": token })).status).toBe(200);
    await other.kill();
  });

  test("composing files demands it", async () => {
    const compose = { method: "POST", target: "/files/compose", host: hostOf(RUNTIME), headers: json, body: "{}" };
    expect((await ask(compose)).status).toBe(401);
    expect((await ask({ ...compose, headers: { ...json, "X-Access-Token": token } })).status).not.toBe(401);
  });

  test("health and a browser's preflight need none", async () => {
    expect((await ask({ target: "/health", host: hostOf(RUNTIME) })).status).toBe(204);
    expect(
      (await ask({ target: "/health", host: hostOf(RUNTIME), headers: { "X-Access-Token": "wrong" } })).status,
    ).toBe(204);
    const preflight = await ask({
      method: "OPTIONS",
      target: "/process.Process/List",
      host: hostOf(RUNTIME),
      headers: { Origin: "https://a.test", "Access-Control-Request-Method": "POST" },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
  });

  test("an unknown path tells a stranger nothing", async () => {
    expect((await ask({ target: "/no-such-path", host: hostOf(RUNTIME) })).status).toBe(401);
  });

  test("the management key and the sandbox's token are no substitutes for each other", async () => {
    const answer = await fetch(`${server().url}/sandboxes/${sandbox.sandboxId}`, { headers: { "X-API-Key": token } });
    expect(answer.status).toBe(401);
  });
});
