/** Responses of a sandbox's URL when there is nothing to reach, and requests that it never lets through. */
import { beforeAll, describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { type RawRequest, rawRequest } from "../../support/raw-request.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const RUNTIME = 49983;
const CLOSED = 4444;
const NOBODY = "i00000000000000000000";
let sandbox: Sandbox;
let token: string;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  token = await runtimeTokenOf(server(), sandbox.sandboxId);
});

const ask = (request: RawRequest) => rawRequest(server().url, request);
const hostOf = (port: number, id = sandbox.sandboxId) => `${port}-${id}.anything.test`;

test("an unknown sandbox is 502 with exactly these bytes, on every port", async () => {
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
});

const START = `\u0000\u0000\u0000\u0000\u0025${JSON.stringify({ process: { cmd: "/bin/true", args: [] } })}`;

describe("the runtime's token", () => {
  let foreign: string;
  beforeAll(async () => {
    const other = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
    foreign = await runtimeTokenOf(server(), other.sandboxId);
  });

  test.each<[method: string, target: string, type?: string, body?: string, status?: number]>([
    ["POST", "/process.Process/List", "application/json", "{}"],
    ["POST", "/process.Process/Start", "application/connect+json", START],
    ["POST", "/filesystem.Filesystem/Stat", "application/json", '{"path":"/etc"}'],
    ["GET", "/metrics"],
    ["GET", "/envs"],
    ["GET", "/files?path=/etc/hostname"],
    ["POST", "/files?path=/tmp/up", "application/octet-stream", "x"],
    ["POST", "/files/compose", "application/json", "{}", 400],
  ])("%s %s requires it and accepts no other", async (method, target, type = "", body = "", opened = 200) => {
    const content: Record<string, string> = type === "" ? {} : { "Content-Type": type };
    const show = (given: Record<string, string>) =>
      ask({ method, target, body, host: hostOf(RUNTIME), headers: { ...content, ...given } });
    const wrong = ["", "wrong", token.slice(0, -1), `${token}0`, foreign, server().apiKey];
    for (const given of [{}, ...wrong.map((value) => ({ "X-Access-Token": value }))]) {
      const refused = await show(given);
      expect(refused.status).toBe(401);
      expect(JSON.parse(refused.body)).toEqual({ code: 401, message: expect.any(String) });
    }
    expect((await show({ "X-Access-Token": token })).status).toBe(opened);
  });
});
