import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { timed } from "../../base/testing/timed.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { closedPort, EdgeUnderTest, hostOf, RawService, SANDBOX, UPGRADE } from "../testing/edge-under-test.ts";
import { serve } from "../testing/service.ts";
import { EDGE_CONNECT_BUDGET_MS } from "./service-lookup.ts";

let edge: EdgeUnderTest;
beforeEach(() => {
  edge = new EdgeUnderTest();
});
afterEach(() => edge[Symbol.asyncDispose]());

const echoingLength = (port = 0, hostname = "127.0.0.1") =>
  Bun.serve({
    port,
    hostname,
    fetch: async (request) => new Response(`${(await request.arrayBuffer()).byteLength}`),
  });

test("an unknown sandbox is not found, at once", async () => {
  edge.end();
  const response = await edge.fetch(3000, "/");
  expect(response.status).toBe(502);
  expect(await response.text()).toBe(`{"sandboxId":"${SANDBOX}","message":"The sandbox was not found","code":502}`);
  expect(edge.lookups).toBe(1);
});

test("a directory that fails is a routing failure in plain text, and is logged", async () => {
  edge.find = () => {
    throw new Error("store is away");
  };
  const response = await edge.fetch(3000, "/");
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain("store");
  expect(edge.logged).toHaveLength(1);
});

describe("when the port has no listener", () => {
  timed("the port is closed after about a second of attempts", async () => {
    const port = await closedPort();
    const startedMs = performance.now();
    const response = await edge.fetch(port, "/", { method: "POST", body: "kept" });
    const tookMs = performance.now() - startedMs;
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ sandboxId: SANDBOX, port, code: 502 });
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(1900);
    // Five; one more when a timer is a little early, one less when each try takes its time.
    expect(edge.forwardsAsked).toBeWithin(4, 7);
  });

  test("a service that starts meanwhile gets the complete request", async () => {
    const port = await closedPort();
    const body = new Uint8Array(3 * 1024 * 1024);
    const response = edge.fetch(port, "/", { method: "POST", body });
    await untilTrue(() => edge.forwardsAsked >= 2);
    await using _service = echoingLength(port);
    expect(await (await response).text()).toBe(String(body.length));
  });

  // Guards against a lookup that ends with its time, without another check of the port.
  test("a service that starts during a slow look-up in the guest gets the request", async () => {
    const port = await closedPort();
    let service: ReturnType<typeof echoingLength> | undefined;
    edge.forward = async () => {
      service ??= echoingLength(port);
      await Bun.sleep(EDGE_CONNECT_BUDGET_MS + 200);
      return undefined;
    };
    const response = await edge.fetch(port, "/", { method: "POST", body: "abc" });
    expect(await response.text()).toBe("3");
    await service?.stop(true);
  });

  test("a sandbox that ends meanwhile is not found", async () => {
    const port = await closedPort();
    const response = edge.fetch(port, "/");
    await untilTrue(() => edge.forwardsAsked >= 2);
    edge.end();
    expect(await (await response).json()).toMatchObject({ message: "The sandbox was not found" });
  });

  test("a client that disconnects ends the attempts", async () => {
    const port = await closedPort();
    const leaving = new AbortController();
    const response = edge.fetch(port, "/", { signal: leaving.signal }).catch((failure: Error) => failure.name);
    await untilTrue(() => edge.forwardsAsked >= 1);
    leaving.abort();
    expect(await response).toBe("AbortError");
    const request = edge.forwardsAsked;
    // The time in which the remaining tries would have happened.
    await Bun.sleep(700);
    expect(edge.forwardsAsked).toBeLessThanOrEqual(request + 1);
  });
});

describe("when the service listens on a loopback address only", () => {
  test("it is reached through the sandbox's forwarder with its body, and the forwarder is cached", async () => {
    const port = await closedPort();
    await using service = echoingLength();
    edge.forward = async () => service.port;
    const body = new Uint8Array(3 * 1024 * 1024);
    expect(await (await edge.fetch(port, "/", { method: "POST", body })).text()).toBe(String(body.length));
    expect(await (await edge.fetch(port, "/", { method: "POST", body: "abc" })).text()).toBe("3");
    expect(edge.forwardsAsked).toBe(1);
  });

  test("concurrent requests open one forwarder", async () => {
    const port = await closedPort();
    await using service = echoingLength();
    const { promise, resolve } = Promise.withResolvers<number>();
    edge.forward = () => promise;
    const answered = Array.from({ length: 8 }, () => edge.fetch(port, "/", { method: "POST", body: "x" }));
    await untilTrue(() => edge.lookups >= 8);
    resolve(service.port ?? 0);
    for (const response of await Promise.all(answered)) expect(await response.text()).toBe("1");
    expect(edge.forwardsAsked).toBeLessThanOrEqual(2);
  });

  test("a cached forwarder that closed is opened again", async () => {
    const port = await closedPort();
    const first = echoingLength();
    edge.forward = async () => first.port;
    expect((await edge.fetch(port, "/")).status).toBe(200);
    await first.stop(true);
    await using second = echoingLength();
    edge.forward = async () => second.port;
    expect(await (await edge.fetch(port, "/", { method: "POST", body: "again" })).text()).toBe("5");
    expect(edge.forwardsAsked).toBe(2);
  });

  test("a cached forwarder is not used after the sandbox's address changed", async () => {
    const port = await closedPort();
    await using service = echoingLength(0, "0.0.0.0");
    edge.forward = async () => service.port;
    expect((await edge.fetch(port, "/")).status).toBe(200);
    edge.place({ host: "127.0.0.2" });
    edge.forward = async () => undefined;
    expect((await edge.fetch(port, "/")).status).toBe(502);
    expect(edge.forwardsAsked).toBeGreaterThan(1);
  });

  test("a failed forwarder counts as none, and is logged", async () => {
    const port = await closedPort();
    edge.forward = async () => {
      throw new Error("guest is away");
    };
    expect((await edge.fetch(port, "/")).status).toBe(502);
    expect(edge.logged.length).toBeGreaterThan(0);
  });
});

describe("when the host address is shared by sandboxes", () => {
  test("a port of that host is never used directly: the forwarder is opened first, and cached", async () => {
    await using service = serve(() => new Response("the sandbox's"));
    await using neighbour = serve(() => new Response("somebody else's"));
    edge.place({ ownPorts: false });
    edge.forward = async () => service.port;
    for (let times = 0; times < 2; times++) {
      expect(await (await edge.fetch(neighbour.port, "/")).text()).toBe("the sandbox's");
    }
    expect(edge.forwardsAsked).toBe(1);
    edge.forward = async () => undefined;
    expect((await edge.fetch(await closedPort(), "/")).status).toBe(502);
  });

  test("the runtime is at the announced port", async () => {
    await using guest = await RawService.start((socket) => void socket.end("HTTP/1.1 204 No Content\r\n\r\n"));
    edge.place({ ownPorts: false, runtimePort: guest.port });
    expect((await edge.fetch(RUNTIME_PORT, "/health")).status).toBe(204);
    expect(edge.forwardsAsked).toBe(0);
  });
});

test("a request to the runtime port waits, and opens no forwarder", async () => {
  // A port of the test's own: the kernel can hand out the usual runtime port to any process here.
  const runtimePort = await closedPort();
  edge.place({ runtimePort });
  const response = edge.fetch(RUNTIME_PORT, "/health");
  await untilTrue(() => edge.lookups >= 5);
  await using _guest = await RawService.start(
    (socket) => void socket.end("HTTP/1.1 204 No Content\r\n\r\n"),
    runtimePort,
  );
  expect((await response).status).toBe(204);
  expect(edge.forwardsAsked).toBe(0);
});

describe("on the runtime port the control channel is closed", () => {
  test.each(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])(
    "to %s, before any look-up",
    async (method) => {
      const response = await edge.fetch(RUNTIME_PORT, "/control/ping", { method });
      expect(response.status).toBe(404);
      if (method !== "HEAD") expect(Object.keys(await response.json())).toEqual(["message", "path", "code"]);
      expect(edge.lookups).toBe(0);
    },
  );

  test.each([
    "/control/ping",
    "//control/ping",
    "/control%2Fping",
    "/files/../control/ping",
    "/files/%2e%2e/control/ping",
    "/%63ontrol/ping",
    "/%2563ontrol/ping",
    "/files/..\\control/ping",
    "\\control\\ping",
    "http://other/control/ping",
    "/x/../init?y",
    "/init/",
    "/control#x",
  ])("as %s, however the request is addressed", async (target) => {
    const head = `GET ${target} HTTP/1.1\r\nHost:`;
    const spellings = [
      `${head} ${hostOf(RUNTIME_PORT)}\r\n\r\n`,
      `${head} x\r\nE2b-Sandbox-Id: ${SANDBOX}\r\nE2b-Sandbox-Port: ${RUNTIME_PORT}\r\n\r\n`,
      `GET ${target} HTTP/1.0\r\nE2b-Sandbox-Id: ${SANDBOX}\r\nE2b-Sandbox-Port: ${RUNTIME_PORT}\r\n\r\n`,
      `${head} ${hostOf(RUNTIME_PORT)}\r\n${UPGRADE}\r\n`,
    ];
    for (const request of spellings) {
      const received = await edge.raw(request, (text) => text.includes("\r\n\r\n"));
      expect(received).toMatch(/^HTTP\/1\.1 (404|400) /);
    }
    expect(edge.lookups).toBe(0);
  });

  test("on other ports these paths belong to the user", async () => {
    await using service = await RawService.start((socket) => void socket.end("HTTP/1.1 204 No Content\r\n\r\n"));
    expect((await edge.fetch(service.port, "/control/ping")).status).toBe(204);
    expect((await edge.fetch(service.port, "/init")).status).toBe(204);
  });
});
