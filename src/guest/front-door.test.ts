/** The order of checks on a real daemon: preflight, token, user, route; and the host's private endpoint. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { fileSignature } from "../contract/runtime/file-signature.ts";
import { guestOfFile } from "./testing/guest-of-file.ts";
import { basic, SECRET } from "./testing/running-guest.ts";

const guest = await guestOfFile({ SANDLOT_CPU_COUNT: "3", SANDLOT_MEMORY_MB: "512" });

const status = async (path: string, init: RequestInit = {}) => (await guest.fetch(path, init)).status;

/** The beginning of it, to what is written like this. */
async function answerTo(request: string): Promise<string> {
  const answer = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: guest.port,
    socket: { data: (_, bytes) => answer.resolve(bytes.toString()) },
  });
  socket.write(request);
  const begun = await answer.promise;
  socket.end();
  return begun;
}

describe("before it is configured", () => {
  test("the guest is open and runs as root", async () => {
    expect(await status("/metrics")).toBe(200);
    const list = await guest.call("filesystem.Filesystem/Stat", { path: "" });
    expect(((await list.json()) as { entry: { path: string } }).entry.path).toBe("/root");
  });
});

describe("plain routes", () => {
  test("GET /metrics returns the metrics", async () => {
    const metrics = (await (await guest.fetch("/metrics")).json()) as Record<string, number>;
    expect(metrics).toMatchObject({ cpu_count: 3, mem_total: 512 * 1024 * 1024, mem_total_mib: 512 });
    expect(metrics.disk_total).toBeGreaterThan(metrics.disk_used ?? Number.NaN);
  });

  test("other methods and paths are rejected", async () => {
    expect(await status("/health", { method: "POST" })).toBe(405);
    for (const path of ["/health", "/files?path=/etc/passwd", "/process.Process/List"]) {
      expect(await status(path, { method: "HEAD" })).toBe(405);
    }
    const call = await guest.fetch("/process.Process/List");
    expect([call.status, call.headers.get("allow")]).toEqual([405, "POST"]);
    for (const path of ["/", "/nothing", "/process.Process/Nothing", "/files/", "/toString", "/init"]) {
      expect(await status(path, { method: "POST" })).toBe(404);
    }
  });

  test.each(["a b", "[", "x:99999999", "é", ""])("a Host of %j has no effect", async (host) => {
    const body = "{}";
    const head = `Host: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    const answer = await answerTo(`POST /process.Process/List HTTP/1.1\r\n${head}\r\n\r\n${body}`);
    expect(answer).toStartWith("HTTP/1.1 200");
  });

  test("an unknown user is rejected everywhere, and other schemes name no user", async () => {
    const ghost = await guest.fetch("/health", { headers: basic("ghost") });
    const refusal = { code: "unauthenticated", message: "invalid username: 'ghost'" };
    expect([ghost.status, await ghost.json()]).toEqual([401, refusal]);
    expect(await status("/health", { headers: { Authorization: "Bearer ghost" } })).toBe(204);
  });
});

describe("cross-origin requests", () => {
  test("preflights need no token", async () => {
    await guest.configure({ accessTokens: ["t"] });
    const response = await guest.fetch("/process.Process/List", {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-access-token,content-type",
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-methods")).toBe("HEAD, GET, POST, PUT, PATCH, DELETE");
    expect(response.headers.get("access-control-allow-headers")).toBe("x-access-token,content-type");
    expect(response.headers.get("access-control-max-age")).toBe("7200");
    expect(response.headers.has("access-control-allow-credentials")).toBe(false);
    await guest.configure({});
  });

  test("responses, also errors, may be read by any page", async () => {
    for (const path of ["/health", "/nothing", "/files?path=/missing"]) {
      const response = await guest.fetch(path, { headers: { Origin: "https://app.example" } });
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(response.headers.get("access-control-expose-headers")).toContain("X-Content-Type-Options");
    }
  });
});

describe("the access token", () => {
  beforeAll(() => guest.configure({ accessTokens: ["older-token", "newer-token"] }));
  afterAll(() => guest.configure({}));

  test.each([undefined, "", "wrong", "newer-toke", "older-token", "newer-token"])("%j", async (token) => {
    const headers: Record<string, string> = token === undefined ? {} : { "X-Access-Token": token };
    const opens = token === "older-token" || token === "newer-token";
    expect(await status("/health", { headers })).toBe(204);
    expect(await status("/health", { method: "POST", headers })).toBe(opens ? 405 : 401);
    expect(await status("/metrics", { headers })).toBe(opens ? 200 : 401);
    expect(await status("/envs", { headers })).toBe(opens ? 200 : 401);
    expect(await status("/nothing", { headers })).toBe(opens ? 404 : 401);
    expect(await status("/files?path=/etc/hostname", { headers })).toBe(opens ? 200 : 401);
    expect(await status("/files?path=/x", { method: "POST", headers })).toBe(opens ? 400 : 401);
    const call = await guest.call("process.Process/List", {}, headers);
    expect(call.status).toBe(opens ? 200 : 401);
    if (!opens) expect(await call.json()).toEqual({ code: 401, message: expect.any(String) });
  });

  test("a signed link gives access to one file without it", async () => {
    const link = (path: string, signed: string) =>
      `/files?${new URLSearchParams({ path, signature: fileSignature({ path: signed, operation: "read", username: "", expiration: undefined }, "older-token") })}`;
    expect(await status(link("/etc/hostname", "/etc/hostname"))).toBe(200);
    expect(await status(link("/etc/passwd", "/etc/hostname"))).toBe(401);
    expect(await status("/files?path=/etc/hostname&signature=v1_&signature_expiration=x")).toBe(400);
  });
});

describe("the control channel", () => {
  const control = (path: string, secret: string | undefined, body = "{}") =>
    guest.fetch(path, {
      method: "POST",
      body,
      ...(secret === undefined ? {} : { headers: { "x-sandlot-control": secret } }),
    });

  test("does not exist without the secret", async () => {
    const unknown = await control("/control/nothing", undefined);
    for (const secret of [undefined, "", "wrong", `${SECRET}x`]) {
      const response = await control("/control/configure", secret);
      expect([response.status, await response.text()]).toEqual([404, await unknown.clone().text()]);
    }
  });

  test("has the same paths in every spelling", async () => {
    const asWritten = (path: string) =>
      answerTo(`GET ${path} HTTP/1.1\r\nHost: guest\r\nx-sandlot-control: ${SECRET}\r\n\r\n`);
    for (const path of ["/control/ping?", "/control/ping?path=/control/none", "/health/../control/ping"])
      expect(await asWritten(path)).toStartWith("HTTP/1.1 204");
    expect(await asWritten("/?/control/ping")).toStartWith("HTTP/1.1 404");
  });

  test("answers a ping, collects garbage, rejects invalid requests", async () => {
    expect(await status("/control/ping", { headers: { "x-sandlot-control": SECRET } })).toBe(204);
    expect((await control("/control/collect", SECRET)).status).toBe(204);
    expect((await control("/control/configure", SECRET, "no json")).status).toBe(400);
    expect((await control("/control/configure", SECRET, '{"sandboxId":1}')).status).toBe(400);
    expect((await control("/control/forward", SECRET, '{"port":70000}')).status).toBe(400);
  });

  test("forwards to a service on a loopback address, and reports if there is none", async () => {
    const service = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("from inside") });
    const inside = service.port;
    const forward = await guest.control("forward", { port: inside });
    const { port } = (await forward.json()) as { port: number };
    expect(port).not.toBe(inside ?? port);
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("from inside");
    await service.stop(true);
    expect((await guest.control("forward", { port: inside })).status).toBe(404);
  });

  test("settings replace all earlier ones, are published, and outlive the daemon", async () => {
    await guest.configure({ envVars: { A: "1" } });
    await guest.configure({ envVars: { B: "2", E2B_SANDBOX_ID: "forged" }, defaultWorkdir: guest.folder });
    const envs = { B: "2", E2B_SANDBOX: "true", E2B_SANDBOX_ID: "isandbox1", E2B_TEMPLATE_ID: "template1" };
    expect(await (await guest.fetch("/envs")).json()).toEqual(envs);
    expect(readFileSync(`${guest.folder}/state/e2b/.E2B_TEMPLATE_ID`, "utf8")).toBe("template1");
    const kept = statSync(`${guest.folder}/state/settings.json`).mode & 0o777;
    expect([kept, statSync(`${guest.folder}/state`).mode & 0o777]).toEqual([0o600, 0o700]);

    await guest.respawn();

    expect(await (await guest.fetch("/envs")).json()).toEqual(envs);
    const workdir = await guest.call("filesystem.Filesystem/Stat", { path: "" });
    expect(((await workdir.json()) as { entry: { path: string } }).entry.path).toBe(guest.folder);
  });
});
